"""Name the rules of a report for readers who were not there; the names in documents stay as they are."""

from __future__ import annotations

PREVIOUS_ANSWERS = "previous answers"  # the name of what people got before
LIKELIEST_ANSWERS = "decisions (argmax)"  # the name of a rule of which no answer is drawn by lot
# What the rules of a report are called on a page, and what they are, for readers who were not there. Other names speak
# for themselves.
RULE_LABELS = {
    "unconstrained, joint": "plain model",
    "recalibrated": "plain model, recalibrated",
    "fair rule": "fair rule, by its probabilities",
    "fair model": "fair model, by its probabilities",
    "decisions (hashed)": "fair rule, as decided",
    LIKELIEST_ANSWERS: "fair rule, always the likeliest answer",
    "decisions (sampled)": "fair rule, drawn anew",
}
RULE_WORDS = {
    PREVIOUS_ANSWERS: "what the same people got before",
    "answers": "what is audited",
    "plain model": "what the model as it is would answer, without constraints",
    "unconstrained, joint": "what the model of group and class would answer, without constraints, by its own "
    "probabilities",
    "recalibrated": "the same after its probabilities were corrected with labels, still without constraints; "
    "explanations of single answers start from it",
    "fair rule": "without the luck of the draw",
    "fair model": "without the luck of the draw",
    "decisions (hashed)": "the answer of each person; where the rule draws by lot, the draw is fixed for each person",
    LIKELIEST_ANSWERS: "the answer of each person: always the likeliest",
    "decisions (sampled)": "the answer of each person, drawn anew at every call",
}
MEASURED_WORDS = {
    "fair rule": "on these people, by its probabilities",
    "fair model": "on these people, by its probabilities",
    "decisions (hashed)": "on these people, as decided",
    LIKELIEST_ANSWERS: "on these people, as decided",
    "decisions (sampled)": "on these people, as decided",
}
NO_PROMISE = (
    "No promise to new people was asked for; OptFairPost makes one with confidence=0.95 (optfair fit --confidence)."
)
AWARENESS_WORDS = {
    "blind": "the rule does not look at the group",
    "aware": "the rule looks at the group",
}


def measured_words(name: str) -> str:
    """Say what the gaps of a rule of a report are measured on; nothing for an audit."""
    return MEASURED_WORDS.get(name, "")
