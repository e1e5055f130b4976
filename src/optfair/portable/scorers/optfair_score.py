"""Score people by a fair rule, with Python's standard library only (3.8 or newer). Written by optfair.

    scorer = load("fair.json", key_file="fair.skops.key")    # or the key in the environment, as OPTFAIR_KEY
    scorer.answer("id-17", joint=z)                          # z[a][i] = P(A=a, Y=i | x)
    scorer.answer("id-17", classes=p, groups=q)              # p[i] = P(Y=i | x), q[a][i] = P(A=a | x, Y=i)
    scorer.answer("id-17", features={"age": 31})             # where fair.json holds the models
    python optfair_score.py fair.json < people.jsonl > answers.jsonl

A line of people.jsonl is {"person": "id-17", "features": {"age": 31}}, or with joint, or classes and groups, in place
of features. A file that was changed, or whose own test vectors do not come out here, is refused.
"""

import hashlib
import hmac
import json
import math
import os
import re
import struct
import sys

CERTAIN = 1 - 2.0**-30  # such a probability counts as one


def load(path, key=None, key_file=None):
    """Return a scorer. key : 32 bytes or hexadecimal digits, by default from key_file or $OPTFAIR_KEY."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:77] != b'{"sha256":"%s",' % hashlib.sha256(content[77:]).hexdigest().encode():
        raise ValueError(f"{path}: is damaged, or was changed; export it again.")
    keys = [os.environ.get("OPTFAIR_KEY") if key is None else key]
    if key is None and key_file is not None:
        if os.name == "posix" and os.stat(key_file).st_mode & 0o077:
            raise ValueError(f"{key_file}: others can read the key; chmod 600.")
        with open(key_file, encoding="ascii") as file:
            keys = [line.split()[-1] for line in file if line.strip()]
    return Scorer(json.loads(content), keys)


def person_bytes(person):
    """Return what is hashed of a person, by an id or several; 17, 17.0 and "17" are one."""
    if isinstance(person, bytes):
        return b"b" + person
    if isinstance(person, str):
        return b"s" + person.encode("utf-8", "surrogatepass")
    if isinstance(person, (list, tuple)):
        parts = [person_bytes(part) for part in person]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    if isinstance(person, (int, float)) and math.isfinite(person):
        return b"s%d" % person if person == int(person) else b"f" + struct.pack("<d", person)
    raise ValueError(f"person={person!r}: must be text, a number, bytes, or a list of these.")


def keyed(key, content, hashing):
    """Return the first eight bytes of a keyed hash."""
    if hashing == "blake2b":
        return hashlib.blake2b(content, key=key, digest_size=8).digest()
    return hmac.new(key, content, "sha256").digest()[:8]


def draw(key, person, hashing):
    """Return the number in [0, 1) of a person."""
    return (int.from_bytes(keyed(key, b"k" + person_bytes(person), hashing), "little") >> 11) * 2.0**-53


def choose(h, u):
    """Return the position where the sum of probabilities exceeds u."""
    sums = [h[0]]
    for p in h[1:]:
        sums.append(sums[-1] + p)
    return min(sum(u * sums[-1] >= s for s in sums), max(j for j, p in enumerate(h) if p > 0))


def softmax(scores):
    """Return probabilities of scores."""
    weights = [math.exp(s - max(scores)) for s in scores]
    return [w / sum(weights) for w in weights]


def product(row, matrix):
    """Return row · matrix."""
    return [sum(x * line[j] for x, line in zip(row, matrix)) for j in range(len(matrix[0]))]


def linear(model, x):
    """Return softmax(x · slopes + intercepts), each probability at its cell among all of them."""
    shares = softmax([s + b for s, b in zip(product(x, model["slopes"]), model["intercepts"])])
    places = dict(zip(model["cells"], shares))
    return [places.get(cell, 0.0) for cell in range(model["size"])]


def scaled(scaling, values):
    """Return calibrated probabilities, which are linear in logarithms."""
    return linear(scaling, [math.log(max(values[k], scaling["clip"])) for k in scaling["inputs"]])


class Scorer:
    """A fair rule, with the calibration of the probabilities it is for, and with the models where they are linear."""

    def __init__(self, document, keys=()):
        if document.get("format") != "optfair scorer" or document.get("version") != 1:
            raise ValueError("not a scorer of version 1; export it again with this release of optfair.")
        self.document, self.key, self.rule = document, None, document["rule"]
        self.classes, self.groups, self.hashing = document["classes"], document["groups"], document["hashing"]
        self.check(**document["vectors"])
        for key in [key if isinstance(key, bytes) else bytes.fromhex(key) for key in keys if key is not None]:
            if keyed(key, b"optfair key", self.hashing).hex() == document["fingerprint"]:
                self.key = key
        if self.key is None and any(keys):
            raise ValueError("key: not the one that belongs to this rule.")

    def check(self, key, slack, cases):
        """Refuse to work where the test vectors of the file do not come out."""
        for case in cases:
            h, u = self.probabilities(**case["input"]), draw(bytes.fromhex(key), case["person"], self.hashing)
            distance = max(abs(p - q) for p, q in zip(h, case["probabilities"]))
            if not distance <= slack or u != case["draw"] or self.decide(h, u) != case["answer"]:
                raise ValueError("a test vector does not come out: the file is damaged, or this platform differs.")

    def answer(self, person=None, **posterior):
        """Return the class that a person gets; see `probabilities` for what is known of them."""
        h, u = self.probabilities(**posterior), None
        if self.document["decision"] != "argmax" and max(h) < CERTAIN:
            if self.key is None:
                raise ValueError("key: missing, and this answer is drawn by it; set OPTFAIR_KEY, or give key_file.")
            u = draw(self.key, person, self.hashing)
        return self.decide(h, u)

    def decide(self, h, u):
        """Return the class for probabilities h and a number u in [0, 1)."""
        if self.document["decision"] == "argmax":
            return self.classes[next(j for j, p in enumerate(h) if p >= max(h) - 1e-12)]
        return self.classes[h.index(max(h)) if max(h) >= CERTAIN else choose(h, u)]

    def probabilities(self, joint=None, classes=None, groups=None, features=None, group=None, offset=None):
        """Return the probability of each class as the answer. group : of the person, for a rule that uses it."""
        joint = self.posterior(features) if features is not None else joint
        if joint is None:
            joint = [[p * q for p, q in zip(classes, shares)] for shares in groups]
        models = joint if self.document["models"] > 1 else [joint]
        for z in models:
            cells = [p for row in z for p in row]
            if [len(row) for row in z] != [len(self.classes)] * len(self.groups) or not abs(sum(cells) - 1) <= 1e-3:
                raise ValueError("joint: must be a list of classes for each group, of probabilities that sum to one.")
            if min(cells) < 0:
                raise ValueError("joint: a probability is negative.")
        rules = [self.apply(self.calibrated(z, group), offset) for z in models]
        return [sum(column) / len(rules) for column in zip(*rules)]

    def apply(self, z, offset):
        """Return h of one calibrated z, cell by cell."""
        rule, m = self.rule, len(self.classes)
        scores = [s + o for s, o in zip(product(z, rule["weights"]), offset or [0.0] * m)]
        best, tau = max(scores), sum(p * t for p, t in zip(z, rule["temperatures"]))
        h = [float(j == next(k for k in range(m) if scores[k] >= best - 1e-12)) for j in range(m)]
        if any(rule["temperatures"]):
            h = softmax([(s - best) / tau for s in scores])
        return [(1 - rule["share"]) * p + rule["share"] * q for p, q in zip(h, rule["constant"])]

    def calibrated(self, z, group):
        """Return z, calibrated, as a list of cells: (group 0, class 0), (group 0, class 1), ..."""
        calibration, A, m = self.document["calibration"] or {}, len(self.groups), len(z[0])
        kind, total = calibration.get("kind"), [sum(column) for column in zip(*z)]
        if self.document["aware"] and (group in self.groups or self.document["unseen"] == "error"):
            if group not in self.groups:
                raise ValueError(f"group={group!r}: must be one of {self.groups}.")
            mine = z[self.groups.index(group)]
            block = [p / sum(mine) for p in mine] if sum(mine) > 0 and kind != "own" else total
            if kind == "aware":
                block = scaled(calibration["groups"][self.groups.index(group)], block + total)
            return [p if b == group else 0.0 for b in self.groups for p in block]
        if kind == "joint":
            cells, classes = scaled(calibration["scaling"], [p for row in z for p in row]), total
            if not calibration["keeps_classes"]:
                return cells
            z = [cells[a * m : a * m + m] for a in range(A)]
        elif kind == "factors":
            shares = [[row[i] / total[i] if total[i] > 0 else 1 / A for row in z] for i in range(m)]
            z = list(zip(*(scaled(s, q + total) for s, q in zip(calibration["groups"], shares))))
            classes = scaled(calibration["classes"], total) if calibration["classes"] else total
        else:
            return [p for row in z for p in row]
        sums = [sum(column) for column in zip(*z)]
        return [(row[i] / sums[i] if sums[i] > 0 else 1 / A) * classes[i] for row in z for i in range(m)]

    def posterior(self, features):
        """Return z of a dict, or a list, of features; a missing value is None, NaN or an absent key."""
        models, A, m = self.document["posterior"], len(self.groups), len(self.classes)
        if models is None:
            raise ValueError("features: the models are not in this file; give joint=, or classes= and groups=.")
        names, x = [column["name"] for column in models["columns"]], [0.0] * models["size"]
        if isinstance(features, dict):
            absent = {name.lower() for name in names if name not in features}
            strange = [name for name in features if name not in names and str(name).lower() in absent]
            if strange or len(absent) == len(names):
                raise ValueError(f"features: {strange or list(features)}: must have the names {names[:20]}.")
        for k, column in enumerate(models["columns"]):
            value = features.get(column["name"]) if isinstance(features, dict) else features[k]
            missing = value is None or value != value or (value == "" and "levels" in column)
            text = re.sub(r"^(-?\d+)\.0$", r"\1", str(value))  # 7, 7.0 and "7" are one text
            number, place = (column["median"] if missing else value), column["place"]
            if "levels" in column:
                number, place = 1.0, column["missing"] if missing else column["levels"].get(text, column["other"])
            if not isinstance(number, (int, float)) or math.isinf(number):
                raise ValueError(f"{column['name'] or k}: must be a number; got {value!r}.")
            for position, entry in ((place, float(number)), (column["gap"] if missing else None, 1.0)):
                if position is not None:
                    x[position] = entry
        if models["joint"]:
            cells = linear(models["joint"], x)
            return [cells[a * m : a * m + m] for a in range(A)]
        p, shares = linear(models["classes"], x), [linear(model, x) for model in models["groups"]]
        return [[p[i] * shares[i][a] for i in range(m)] for a in range(A)]


if __name__ == "__main__":
    scorer = load(sys.argv[1])
    for request in map(json.loads, sys.stdin):
        who = request.pop("person", None)
        print(json.dumps({"answer": scorer.answer(who, **request), "probabilities": scorer.probabilities(**request)}))
