"""Say in words what the members of replies are: for the OpenAPI document."""

UNDECIDED = (
    "Whether no class has a probability of 99 % as the answer, so that a draw decided: by the key of the person, or "
    "else by their features. As in reports and explanations."
)
HEALTH = {
    "status": '"ok"; "failing" (other answers than at the start, or an error); "stuck" (no answer); or "stopping".',
    "model": "What it was fitted for.",
    "optfair": "Version of optfair.",
    "sha256": "SHA-256 of the model file, to tell models apart; null where the service was not started from a file.",
    "key": "Fingerprint of the key of decisions, the first word of the key file; null where there is none.",
    "criterion": "What was asked for.",
    "awareness": "Whether the model is told the group.",
    "decision": "How people at the border between two classes are decided.",
    "classes": "All answers.",
    "groups": "Number of groups.",
}
EXPLANATION = {
    "person": "Position in the request, from 0.",
    "model": "The answer of the model itself.",
    "plain": "The best answer without constraints.",
    "answer": "The answer.",
    "probability": "Of this answer.",
    "against": "The class it is compared with: the plain answer where that is another, else the runner-up.",
    "margin": "By how much the answer is ahead of it: preference plus constraints; negative where a draw decided so.",
    "preference": "The part of the margin that is the model's.",
    "constraints": "The part of the margin that is the constraints'.",
    "undecided": UNDECIDED,
    "draw": "The number of the person that decided; null where none was needed.",
    "draw_low": "From here on, draws give this answer.",
    "draw_high": "Up to here.",
    "tolerance_other": "The nearest tolerance looked at that gives another answer; null where there is none.",
    "answer_other": "The answer there.",
    "terms": "The constraints that moved the margin: names, part, and share of all of them.",
    "sentences": "All of this in words.",
}
