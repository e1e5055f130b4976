"""Explain the words of a report in plain English; `{sure}` stands for its level, such as 95 %."""

from __future__ import annotations

# name in links -> (word, explanation)
WORDS = {
    "rate": (
        "Rate",
        "The share of a set of people for whom something holds, such as getting a certain answer.",
    ),
    "gap": (
        "Gap",
        "The difference between the rate of a group and that of everybody, or of another group, in percentage points.",
    ),
    "tolerance": ("Tolerance", "The largest gap that was asked to be allowed."),
    "interval": (
        "{sure} interval",
        "A range computed from a sample so that it holds the value of the whole population in {sure} of samples.",
    ),
    "floor": (
        "Chance alone (noise floor)",
        "The gap below which a rule that treats all groups alike stays in {sure} of samples of these sizes.",
    ),
    "verdict": (
        "Surely within, surely beyond, cannot tell",
        "Surely within: the limits of every gap are within the tolerance. Surely beyond: the interval of at least one "
        "gap, which allows for all of them at once, is outside of it. Else it cannot be told: for too few people, "
        "where chance alone moves a gap by more than half of what is allowed, or because it was measured near the "
        "limit. "
        "“Surely” is right in at least {sure} of such samples.",
    ),
    "lot": (
        "Drawn by lot",
        "Near the border between two answers the most accurate fair rule may need a random draw. Unless said otherwise "
        "the draw is fixed for each person, so that asking again gives the same answer.",
    ),
    "blind": (
        "Blind",
        "The rule does not look at the group of a person. It was chosen with regard to groups, from people whose "
        "groups were known.",
    ),
    "price": (
        "Price",
        "The share of right answers that would be gained per unit of tolerance, if the request were loosened a little.",
    ),
    "recall": ("Recognised (recall)", "The share of the people of a true class who get that class as their answer."),
    "wrong": ("Wrongly given", "The share of the people of other true classes who get this class as their answer."),
    "proof": (
        "Proof (certificate)",
        "A bound on how accurate any rule within the same limits can be, by the model's own estimates. It shows that "
        "no better rule was overlooked; it does not show that the estimates are right.",
    ),
    "promise": (
        "Promise",
        "A statement about people who were not seen: that every gap of the population is within the tolerance, with "
        "the confidence stated.",
    ),
    "ratio": (
        "Impact ratio",
        "The rate at which a group gets a favourable answer, divided by the rate of the group that gets it most often.",
    ),
    "p": (
        "p-value",
        "How often so large a difference would be seen by chance if the two groups had the same rate. By itself it is "
        "for one comparison; “all pairs” multiplies it by the number of pairs that could have been compared.",
    ),
}
