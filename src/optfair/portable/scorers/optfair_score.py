"""Score people by a fair rule, with Python's standard library only (3.8 or newer). Written by optfair.

    scorer = load("fair.json", key_file="fair.skops.key")    # or the key in the environment, as OPTFAIR_KEY
    scorer.answer("id-17", joint=z)                          # z[a][i] = P(A=a, Y=i | x)
    scorer.answer("id-17", classes=p, groups=q)              # p[i] = P(Y=i | x), q[a][i] = P(A=a | x, Y=i)
    scorer.answer("id-17", features={"age": 31})             # where fair.json holds the models
    python optfair_score.py --help                           # for lines of JSON

A file that was changed, or whose own test vectors do not come out here, is refused.
"""

import hashlib
import hmac
import json
import math
import numbers
import os
import re
import struct
import sys

CERTAIN = 1 - 2.0**-30  # such a probability counts as one
LARGEST_SLACK = 1e-6  # of test vectors: a platform that differs by more computes something else
LARGEST_OFFSET = 1e100  # scores stay finite
MISSING = "(missing)"  # the group of people without one, where a rule has it
UNFIT = "a list of the document does not fit its classes and groups, or there are no test vectors; export it again."
KEY_LINE = re.compile(r"[ \t]*(?:(?:[0-9a-fA-F]{16}[ \t]+)?([0-9a-fA-F]{64}))?[ \t\r]*")  # fingerprint, key; or none
FIELDS = ("joint", "classes", "groups", "features", "group", "offset")
USAGE = """usage: python optfair_score.py fair.json < people.jsonl > answers.jsonl

Answers people by a fair rule. A line of people.jsonl is {"person": "id-17", "features": {"age": 31}}, or has "joint",
or "classes" and "groups", in place of the features; "group" where the rule uses it, and "offset". "key" is another
name of "person". A line of answers.jsonl is {"answer": ..., "probabilities": [...]}, or {"error": ..., "line": n} for a
line that cannot be answered. The secret key is in $OPTFAIR_KEY: hexadecimal digits, or the text of a key file.
Exit code: 0 if all lines were answered, 1 if some were not, 2 if the scorer could not start.
"""


def load(path, key=None, key_file=None):
    """Return a scorer. key : 32 bytes or hexadecimal digits, by default from key_file or $OPTFAIR_KEY."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:77] != b'{"sha256":"%s",' % hashlib.sha256(content[77:]).hexdigest().encode():
        raise ValueError(f"{path}: is damaged, or was changed; export it again.")
    if key is None and key_file is not None:
        if os.name == "posix" and os.stat(key_file).st_mode & 0o077:
            raise ValueError(f"{key_file}: others can read the key; chmod 600.")
        with open(key_file, "rb") as file:
            key = file.read().decode("latin-1")
    key = os.environ.get("OPTFAIR_KEY") if key is None else key
    return Scorer(json.loads(content), [] if key is None else [key])


def has_shape(values, *shape):
    """Tell whether values are finite numbers, in lists of these lengths one in the other."""
    if not shape:
        return isinstance(values, numbers.Real) and abs(values) <= sys.float_info.max
    return getattr(values, "__len__", int)() == shape[0] and all(has_shape(value, *shape[1:]) for value in values)


def is_text(value):
    """Tell whether a value is text that has bytes: lone surrogates have none."""
    return isinstance(value, str) and not re.search(r"[\ud800-\udfff]", value)


def is_missing(value):
    """Tell whether a text or a group is missing."""
    return value is None or value == "" or value != value


def person_bytes(person):
    """Return what is hashed of a person, by an id or several; 17, 17.0, "17" and "17.0" are one."""
    if isinstance(person, bytes) and person:
        return b"b" + person
    if is_text(person) and person:
        return b"s" + re.sub(r"^(-?[0-9]+)\.0\Z", r"\1", person).encode("utf-8")
    if isinstance(person, (list, tuple)) and person:
        parts = [person_bytes(part) for part in person]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    if isinstance(person, int) or (isinstance(person, float) and person.is_integer()):
        return b"s%d" % int(person)
    if isinstance(person, float) and math.isfinite(person):
        return b"f" + struct.pack("<d", person)
    raise ValueError(f"person={person!r}: must be valid text, a number, bytes, or a list of these, and not empty.")


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


def product(row, matrix, width):
    """Return row · matrix, of this width."""
    if len(row) != len(matrix) or any(len(line) != width for line in matrix):
        raise ValueError(UNFIT)
    return [sum(x * line[j] for x, line in zip(row, matrix)) for j in range(width)]


def linear(model, x, size):
    """Return softmax(x · slopes + intercepts), each probability at its cell among all; of logarithms in a scaling."""
    if "clip" in model:
        x = [math.log(max(x[k], model["clip"])) for k in model["inputs"]]
    scores = zip(product(x, model["slopes"], len(model["intercepts"])), model["intercepts"])
    shares = dict(zip(model["cells"], softmax([s + b for s, b in scores])))
    if model["size"] != size or len(shares) != len(model["intercepts"]) or not {*shares} <= {*range(size)}:
        raise ValueError(UNFIT)
    return [shares.get(cell, 0.0) for cell in range(size)]


class Scorer:
    """A fair rule, with the calibration of the probabilities it is for, and with the models where they are linear."""

    def __init__(self, document, keys=()):
        if document.get("format") != "optfair scorer" or document.get("version") != 1:
            raise ValueError("not a scorer of version 1; export it again with this release of optfair.")
        try:
            self.document, self.key, self.rule = document, None, document["rule"]
            self.classes, self.groups, self.hashing = document["classes"], document["groups"], document["hashing"]
            self.check(**document["vectors"])
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"a part of the document is missing or malformed ({error!r}); export it again.") from None
        texts = [key.hex() if isinstance(key, bytes) else str(key) for key in keys]
        lines = [KEY_LINE.fullmatch(line) for text in texts for line in text.split("\n")]
        for key in [bytes.fromhex(line[1]) for line in lines if line[1]] if all(lines) else []:
            if keyed(key, b"optfair key", "hmac-sha256").hex() == document.get("fingerprint"):
                self.key = key
        if self.key is None and keys:
            raise ValueError("key: not the one that belongs to this rule, in 32 bytes or 64 hexadecimal digits.")

    def check(self, key, slack, cases):
        """Refuse a document that is not whole, or whose test vectors do not come out."""
        A, m, calibration = len(self.groups), len(self.classes), self.document["calibration"] or {}
        fits = has_shape(self.rule["temperatures"], A * m) and has_shape(self.rule["constant"], m)
        n_scalings = {"factors": m, "aware": A}.get(calibration.get("kind"), 0)
        if not fits or len(calibration.get("groups", [])) != n_scalings or not cases or not 0 <= slack <= LARGEST_SLACK:
            raise ValueError(UNFIT)
        for case in cases:
            h, u = self.probabilities(**case["input"]), draw(bytes.fromhex(key), case["person"], self.hashing)
            distance = max(abs(p - case["probabilities"][j]) for j, p in enumerate(h))
            if not distance <= slack or u != case["draw"] or self.decide(h, u) != case["answer"]:
                raise ValueError("a test vector does not come out: the file is damaged, or this platform differs.")

    def answer(self, person=None, **posterior):
        """Return the class that a person gets; see `probabilities` for what is known of them."""
        h = self.probabilities(**posterior)
        if self.document["decision"] == "argmax" or max(h) >= CERTAIN:
            if self.document["decision"] != "argmax" and person is not None:
                person_bytes(person)  # refuses what is no id also where nothing is drawn
            return self.decide(h, None)
        if self.key is None:
            raise ValueError("key: missing, and this answer is drawn by it; set OPTFAIR_KEY, or give key_file.")
        return self.decide(h, draw(self.key, person, self.hashing))

    def decide(self, h, u):
        """Return the class for probabilities h and a number u in [0, 1)."""
        if self.document["decision"] == "argmax":
            return self.classes[next(j for j, p in enumerate(h) if p >= max(h) - 1e-12)]
        return self.classes[h.index(max(h)) if max(h) >= CERTAIN else choose(h, u)]

    def probabilities(self, joint=None, classes=None, groups=None, features=None, group=None, offset=None):
        """Return the probability of each class as the answer. group : of the person, for a rule that uses it."""
        n, A, m = self.document["models"], len(self.groups), len(self.classes)
        joint = self.posterior(features) if features is not None else joint
        if joint is None and has_shape(classes, m) and has_shape(groups, A, m):
            joint = [[p * q for p, q in zip(classes, shares)] for shares in groups]
        models = joint if n > 1 else [joint]
        if not has_shape(models, n, A, m) or any(abs(sum(map(sum, z)) - 1) > 1e-3 for z in models):
            raise ValueError("joint: must be a list of classes for each group, of probabilities that sum to one.")
        if min(p for z in models for row in z for p in row) < 0:
            raise ValueError("joint: a probability is negative.")
        if offset is not None and not (has_shape(offset, m) and max(map(abs, offset)) <= LARGEST_OFFSET):
            raise ValueError(f"offset: must be a list of {m} numbers, of at most {LARGEST_OFFSET:g}.")
        place = self.place(group, features) if self.document["aware"] else None
        rules = [self.apply(self.calibrated(z, place), offset) for z in models]
        return [sum(column) / len(rules) for column in zip(*rules)]

    def place(self, group, features):
        """Return the position of a group, or None; what is missing is a group of its own where the rule has one."""
        labels, absent = [name if isinstance(name, list) else [name] for name in self.groups], is_missing(group)
        parts = [group] * (len(labels[0]) if absent else 1) if not isinstance(group, (list, tuple)) else list(group)
        is_plain = parts in labels or self.document["missing"] != "group"
        names = parts if is_plain else [MISSING if is_missing(part) else part for part in parts]
        fits = len(parts) == len(labels[0]) and all(is_text(part) or has_shape(part) for part in names)
        if names not in labels and (self.document["unseen"] == "error" or not fits):
            raise ValueError(f"group={group!r}: must be one of {self.groups}.")
        columns = self.document["about"]["attributes"] if absent and isinstance(features, dict) else []
        if names in labels and not all(is_missing(features.get(name)) for name in columns):
            raise ValueError("group: missing, and the features have one; give it as the group too.")
        return labels.index(names) if names in labels else None

    def apply(self, z, offset):
        """Return h of one calibrated z, cell by cell."""
        rule, m = self.rule, len(self.classes)
        scores = [s + o for s, o in zip(product(z, rule["weights"], m), offset or [0.0] * m)]
        best, tau = max(scores), sum(p * t for p, t in zip(z, rule["temperatures"]))
        h = [float(j == next(k for k in range(m) if scores[k] >= best - 1e-12)) for j in range(m)]
        if any(rule["temperatures"]):
            h = softmax([(s - best) / tau for s in scores])
        return [(1 - rule["share"]) * p + rule["share"] * q for p, q in zip(h, rule["constant"])]

    def calibrated(self, z, place):
        """Return z, calibrated, as a list of cells: (group 0, class 0), (group 0, class 1), ..."""
        calibration, A, m = self.document["calibration"] or {}, len(self.groups), len(z[0])
        kind, total = calibration.get("kind"), [sum(column) for column in zip(*z)]
        if place is not None:
            mine = z[place]
            block = [p / sum(mine) for p in mine] if sum(mine) > 0 and kind != "own" else total
            if kind == "aware":
                block = linear(calibration["groups"][place], block + total, m)
            return [p if a == place else 0.0 for a in range(A) for p in block]
        if kind == "joint":
            cells, classes = linear(calibration["scaling"], [p for row in z for p in row], A * m), total
            if not calibration["keeps_classes"]:
                return cells
            z = [cells[a * m : a * m + m] for a in range(A)]
        elif kind == "factors":
            shares = [[row[i] / total[i] if total[i] > 0 else 1 / A for row in z] for i in range(m)]
            z = list(zip(*(linear(s, q + total, A) for s, q in zip(calibration["groups"], shares))))
            classes = linear(calibration["classes"], total, m) if calibration["classes"] else total
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
        if isinstance(features, dict) == (names[0] is None) or (names[0] is None and len(features) != len(names)):
            raise ValueError(f"features: must be a {'list' if names[0] is None else 'dict'} of {len(names)} values.")
        if isinstance(features, dict):
            absent = [name for name in names if name not in features]
            vocabulary = {*names, *models["unread"], *self.document["about"]["attributes"]}
            if len(absent) == len(names):
                raise ValueError(f"features: {list(features)}: must have the names {names[:20]}.")
            for name in [name for name in features if name not in vocabulary] if absent else []:  # it may be misspelt
                rule = "leave out one or give the other, null if it is missing."
                raise ValueError(f"features: {name!r} is no feature of the model, and {absent[0]!r} is absent; {rule}")
        for k, column in enumerate(models["columns"]):
            value, name = (features[k], k) if names[0] is None else (features.get(names[k]), names[k])
            missing = is_missing(value) and (value != "" or "levels" in column)
            number, place = (column["median"] if missing else value), column["place"]
            if "levels" in column and (missing or is_text(value) or has_shape(value)):
                text = str(value + 0.0 if isinstance(value, float) else value)  # 7, 7.0 and "7" are one text, -0.0 is 0
                text = text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text
                number, place = 1.0, column["missing"] if missing else column["levels"].get(text, column["other"])
            if not has_shape(number):
                kind = "a number or valid text" if "levels" in column else "a number"
                raise ValueError(f"{name}: must be {kind}; got {value!r}.")
            for position, entry in ((place, float(number)), (column["gap"] if missing else None, 1.0)):
                if position is not None:
                    x[position] = entry
        if models["joint"]:
            cells = linear(models["joint"], x, A * m)
            return [cells[a * m : a * m + m] for a in range(A)]
        p, shares = linear(models["classes"], x, m), [linear(model, x, A) for model in models["groups"]]
        return [[p[i] * shares[i][a] for i in range(m)] for a in range(A)]


def line_answer(scorer, line):
    """Return what is answered to the bytes of a line."""
    try:
        request = json.loads(line.decode("utf-8-sig"))  # bytes: JSON is UTF-8 whatever the locale is
    except ValueError as error:
        raise ValueError(f"not JSON in UTF-8 ({error}).") from None
    if not isinstance(request, dict):
        raise ValueError('must be an object, such as {"person": "id-17", "features": {"age": 31}}.')
    ids = [value for value in (request.pop("person", None), request.pop("key", None)) if value is not None]
    if len(ids) > 1:
        raise ValueError("person, key: two names of the id; give one of them.")
    if not ids and scorer.document["decision"] != "argmax":
        raise ValueError("person: missing, and answers are drawn by it; say who it is.")
    strange = [name for name in request if name not in FIELDS]
    if strange:
        raise ValueError(f"{','.join(strange)}: must be {', '.join(FIELDS[:-1])} or offset.")
    return {"answer": scorer.answer(*ids, **request), "probabilities": scorer.probabilities(**request)}


def main(arguments):
    """Answer the lines of the standard input, each in its place; return the exit code."""
    is_help = "--help" in arguments or "-h" in arguments
    if is_help or len(arguments) != 1:
        (sys.stdout if is_help else sys.stderr).write(USAGE)
        return 0 if is_help else 2
    try:
        scorer = load(arguments[0])
        if scorer.key is None and scorer.document["decision"] != "argmax":
            raise ValueError("key: missing, and answers are drawn by it; set OPTFAIR_KEY.")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"optfair_score.py: {error}\n")
        return 2
    code = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            reply = line_answer(scorer, line)
        except Exception as error:  # whatever it is, the people behind this line get their answers
            reply, code = {"error": str(error) or repr(error), "line": number}, 1
        sys.stdout.buffer.write(json.dumps(reply, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
