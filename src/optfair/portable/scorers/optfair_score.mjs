// Score people by a fair rule, with nothing but JavaScript (Node 18 or newer, Deno, Bun). Written by optfair.
//
//   import { load } from "./optfair_score.mjs";
//   const scorer = load("fair.json", { keyFile: "fair.skops.key" });   // or the key in the environment, as OPTFAIR_KEY
//   scorer.answer("id-17", { joint: z });                              // z[a][i] = P(A=a, Y=i | x)
//   scorer.answer("id-17", { classes: p, groups: q });                 // p[i] = P(Y=i | x), q[a][i] = P(A=a | x, Y=i)
//   scorer.answer("id-17", { features: { age: 31 } });                 // where fair.json holds the models
//   node optfair_score.mjs --help                                      // for lines of JSON
//
// A file that was changed, or whose own test vectors do not come out here, is refused.

import { createHash, createHmac } from "node:crypto";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const CERTAIN = 1 - 2 ** -30; // such a probability counts as one
const LARGEST_SLACK = 1e-6; // of test vectors: a platform that differs by more computes something else
const LARGEST_OFFSET = 1e100; // scores stay finite
const MISSING = "(missing)"; // the group of people without one, where a rule has it
const UNFIT =
  "a list of the document does not fit its classes and groups, or there are no test vectors; export it again.";
const KEY_LINE = /^[ \t]*(?:(?:[0-9a-fA-F]{16}[ \t]+)?([0-9a-fA-F]{64}))?[ \t\r]*$/; // fingerprint, key; or none
const USAGE = `usage: node optfair_score.mjs fair.json < people.jsonl > answers.jsonl

Answers people by a fair rule. A line of people.jsonl is {"person": "id-17", "features": {"age": 31}}, or has "joint",
or "classes" and "groups", in place of the features; "group" where the rule uses it, and "offset". "key" is another
name of "person". A line of answers.jsonl is {"answer": ..., "probabilities": [...]}, or {"error": ..., "line": n} for a
line that cannot be answered. The secret key is in $OPTFAIR_KEY: hexadecimal digits, or the text of a key file.
Exit code: 0 if all lines were answered, 1 if some were not, 2 if the scorer could not start.
`;
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const columns = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));
const show = (value) => (typeof value === "bigint" ? `${value}` : JSON.stringify(value));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Tell whether values are finite numbers, in arrays of these lengths one in the other.
function hasShape(values, ...shape) {
  if (!shape.length) return ["number", "boolean"].includes(typeof values) && Number.isFinite(Number(values));
  const [length, ...rest] = shape;
  return Array.isArray(values) && values.length === length && values.every((value) => hasShape(value, ...rest));
}

// Tell whether a value is text that has bytes: lone surrogates have none.
const isText = (value) => typeof value === "string" && !/\p{Surrogate}/u.test(value);

// Tell whether a text or a group is missing.
const isMissing = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);

// Refuse a number from which JavaScript may have taken digits when it was read.
function checkDigits(number, name) {
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new Error(`${name}=${number}: JavaScript has lost digits of this number; give it as text or as a BigInt.`);
  }
}

// Return the text of a value in a column of texts, as Python writes it: 7, 7.0 and "7" are one.
function cellText(value, name) {
  checkDigits(value, name);
  if (typeof value === "boolean") return value ? "True" : "False";
  const isSmall = typeof value === "number" && value !== 0 && Math.abs(value) < 1e-4;
  const text = isSmall ? value.toExponential().replace(/e-(\d)$/, "e-0$1") : String(value);
  return text.replace(/^(-?\p{Nd}+)\.0$/u, "$1");
}

// Return a scorer. key : 32 bytes or hexadecimal digits, by default from keyFile or $OPTFAIR_KEY.
export function load(path, { key = null, keyFile = null } = {}) {
  const content = readFileSync(path);
  const digest = createHash("sha256").update(content.subarray(77)).digest("hex");
  if (content.subarray(0, 77).toString("latin1") !== `{"sha256":"${digest}",`) {
    throw new Error(`${path}: is damaged, or was changed; export it again.`);
  }
  if (key === null && keyFile !== null) {
    if (process.platform !== "win32" && statSync(keyFile).mode & 0o077) {
      throw new Error(`${keyFile}: others can read the key; chmod 600.`);
    }
    key = readFileSync(keyFile, "latin1");
  }
  key ??= process.env.OPTFAIR_KEY ?? null;
  return new Scorer(JSON.parse(content.toString("utf8")), key === null ? [] : [key]);
}

// -- who a person is ------------------------------------------------------------------------------------------------
const bytes = (tag, ...parts) => Buffer.concat([Buffer.from(tag), ...parts]);

// Return what is hashed of a person, by an id or several; 17, 17n, "17" and "17.0" are one.
export function personBytes(person) {
  if (person instanceof Uint8Array && person.length) return bytes("b", person);
  if (isText(person) && person) return bytes("s", Buffer.from(person.replace(/^(-?[0-9]+)\.0$/, "$1"), "utf8"));
  if (Array.isArray(person) && person.length) {
    const parts = person.map(personBytes).map((part) => {
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(part.length));
      return Buffer.concat([length, part]);
    });
    return bytes("t", ...parts);
  }
  if (typeof person === "boolean" || typeof person === "bigint" || Number.isInteger(person)) {
    checkDigits(person, "person");
    return bytes("s", Buffer.from(BigInt(person).toString()));
  }
  if (typeof person === "number" && Number.isFinite(person)) {
    const number = Buffer.alloc(8);
    number.writeDoubleLE(person);
    return bytes("f", number);
  }
  throw new Error(`person=${show(person)}: must be valid text, a number, bytes, or a list of these, and not empty.`);
}

// Return the first eight bytes of a keyed hash.
export function keyed(key, content, hashing) {
  if (hashing === "blake2b") return blake2b(key, content);
  return createHmac("sha256", key).update(content).digest().subarray(0, 8);
}

// Return the number in [0, 1) of a person: the top 53 bits.
export function draw(key, person, hashing) {
  const digest = keyed(key, bytes("k", personBytes(person)), hashing);
  return (digest.readUInt32LE(4) * 2 ** 21 + (digest.readUInt32LE(0) >>> 11)) * 2 ** -53;
}

// -- BLAKE2b with a key, eight bytes long (RFC 7693); numbers of 64 bits are two of 32, the lower first ----------------
const IV = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
const ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => 2 * parseInt(digit, 16)));
const LANES = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"].map((row) =>
  [...row].map((digit) => 2 * parseInt(digit, 16)),
);

function blake2b(key, content) {
  const padded = new Uint8Array(128 * (1 + Math.max(Math.ceil(content.length / 128), key.length ? 0 : 1)));
  padded.set(key);
  padded.set(content, 128);
  const blocks = key.length ? padded : padded.subarray(128);
  const length = (key.length ? 128 : 0) + content.length;
  const words = new DataView(blocks.buffer, blocks.byteOffset);
  const [h, v, w] = [IV.slice(), new Uint32Array(32), new Uint32Array(32)];
  h[0] ^= 0x01010000 ^ (key.length << 8) ^ 8;

  const add = (a, low, high) => {
    const sum = v[a] + low;
    v[a + 1] = v[a + 1] + high + (sum > 0xffffffff ? 1 : 0);
    v[a] = sum;
  };
  const turn = (a, b, bits) => {
    // v[a] = (v[a] ^ v[b]) rotated to the right
    const [low, high] = [v[a] ^ v[b], v[a + 1] ^ v[b + 1]];
    const [x, y] = bits < 32 ? [low, high] : [high, low];
    const k = bits % 32;
    v[a] = k ? (x >>> k) | (y << (32 - k)) : x;
    v[a + 1] = k ? (y >>> k) | (x << (32 - k)) : y;
  };
  for (let start = 0; start < blocks.length; start += 128) {
    const last = start + 128 >= blocks.length;
    v.set(h);
    v.set(IV, 16);
    v[24] ^= last ? length : start + 128;
    if (last) [v[28], v[29]] = [~v[28], ~v[29]];
    for (let k = 0; k < 32; k++) w[k] = words.getUint32(start + 4 * k, true);
    for (let round = 0; round < 12; round++) {
      const order = ORDERS[round % 10];
      LANES.forEach(([a, b, c, d], lane) => {
        const [x, y] = [order[2 * lane], order[2 * lane + 1]];
        add(a, v[b], v[b + 1]), add(a, w[x], w[x + 1]), turn(d, a, 32);
        add(c, v[d], v[d + 1]), turn(b, c, 24);
        add(a, v[b], v[b + 1]), add(a, w[y], w[y + 1]), turn(d, a, 16);
        add(c, v[d], v[d + 1]), turn(b, c, 63);
      });
    }
    for (let k = 0; k < 16; k++) h[k] ^= v[k] ^ v[k + 16];
  }
  return Buffer.from(h.buffer.slice(0, 8));
}

// -- probabilities --------------------------------------------------------------------------------------------------
// Return the position where the sum of probabilities exceeds u.
export function choose(h, u) {
  let sum = 0;
  const sums = h.map((p) => (sum += p));
  const last = h.reduce((best, p, j) => (p > 0 ? j : best), 0);
  return Math.min(sums.filter((s) => u * sum >= s).length, last);
}

function softmax(scores) {
  const best = Math.max(...scores);
  const weights = scores.map((s) => Math.exp(s - best));
  return weights.map((w) => w / total(weights));
}

// Return row · matrix, of this width.
function product(row, matrix, width) {
  if (row.length !== matrix.length || matrix.some((line) => line.length !== width)) throw new Error(UNFIT);
  return Array.from({ length: width }, (_, j) => row.reduce((sum, x, k) => sum + x * matrix[k][j], 0));
}

// Return softmax(x · slopes + intercepts), each probability at its cell among all; of logarithms in a scaling.
function linear({ cells, size, slopes, intercepts, inputs, clip }, x, all) {
  const isPlace = (length) => (k) => Number.isInteger(k) && k >= 0 && k < length;
  const isWhole = size === all && cells.length === intercepts.length && new Set(cells).size === cells.length;
  if (!isWhole || !cells.every(isPlace(size)) || !(inputs ?? []).every(isPlace(x.length))) throw new Error(UNFIT);
  const values = inputs ? inputs.map((k) => Math.log(Math.max(x[k], clip))) : x;
  const shares = softmax(product(values, slopes, intercepts.length).map((s, j) => s + intercepts[j]));
  const out = new Array(size).fill(0);
  cells.forEach((cell, j) => (out[cell] = shares[j]));
  return out;
}

// A fair rule, with the calibration of the probabilities it is for, and with the models where they are linear.
export class Scorer {
  constructor(document, keys = []) {
    if (document.format !== "optfair scorer" || document.version !== 1) {
      throw new Error("not a scorer of version 1; export it again with this release of optfair.");
    }
    try {
      Object.assign(this, { document, key: null, rule: document.rule });
      Object.assign(this, { classes: document.classes, groups: document.groups, hashing: document.hashing });
      this.check(document.vectors);
    } catch (error) {
      if (error.constructor === Error) throw error;
      throw new Error(`a part of the document is missing or malformed (${error}); export it again.`);
    }
    const texts = keys.map((key) => (key instanceof Uint8Array ? Buffer.from(key).toString("hex") : String(key)));
    const lines = texts.flatMap((text) => text.split("\n")).map((line) => KEY_LINE.exec(line));
    for (const [, digits] of lines.includes(null) ? [] : lines) {
      const key = Buffer.from(digits ?? "", "hex");
      const fingerprint = keyed(key, Buffer.from("optfair key"), "hmac-sha256").toString("hex");
      if (fingerprint === document.fingerprint) this.key = key;
    }
    if (this.key === null && keys.length) {
      throw new Error("key: not the one that belongs to this rule, in 32 bytes or 64 hexadecimal digits.");
    }
  }

  // Refuse a document that is not whole, or whose test vectors do not come out.
  check({ key, slack, cases }) {
    const [A, m, calibration] = [this.groups.length, this.classes.length, this.document.calibration ?? {}];
    const fits = hasShape(this.rule.temperatures, A * m) && hasShape(this.rule.constant, m);
    const nScalings = { factors: m, aware: A }[calibration.kind] ?? 0;
    const hasVectors = cases.length > 0 && slack >= 0 && slack <= LARGEST_SLACK;
    if (!fits || !hasVectors || (calibration.groups ?? []).length !== nScalings) throw new Error(UNFIT);
    for (const { input, person, probabilities, draw: number, answer } of cases) {
      const [h, u] = [this.probabilities(input), draw(Buffer.from(key, "hex"), person, this.hashing)];
      const distance = Math.max(...h.map((p, j) => Math.abs(p - probabilities[j])));
      if (!(distance <= slack) || u !== number || !same(this.decide(h, u), answer)) {
        throw new Error("a test vector does not come out: the file is damaged, or this platform differs.");
      }
    }
  }

  // Return the class that a person gets; see `probabilities` for what is known of them.
  answer(person, posterior) {
    const h = this.probabilities(posterior);
    if (this.document.decision === "argmax") return this.decide(h, null);
    if (Math.max(...h) >= CERTAIN) {
      if (person !== null && person !== undefined) personBytes(person); // refuses what is no id also here
      return this.decide(h, null);
    }
    if (this.key === null) {
      throw new Error("key: missing, and this answer is drawn by it; set OPTFAIR_KEY, or give keyFile.");
    }
    return this.decide(h, draw(this.key, person, this.hashing));
  }

  // Return the class for probabilities h and a number u in [0, 1).
  decide(h, u) {
    const best = Math.max(...h);
    if (this.document.decision === "argmax") return this.classes[h.findIndex((p) => p >= best - 1e-12)];
    return this.classes[best >= CERTAIN ? h.indexOf(best) : choose(h, u)];
  }

  // Return the probability of each class as the answer. group : of the person, for a rule that uses it.
  probabilities(request) {
    let { joint = null } = request;
    const { classes = null, groups = null, features = null, group = null, offset = null, ...others } = request;
    delete others.joint;
    const strange = Object.keys(others);
    if (strange.length) throw new Error(`${strange}: must be joint, classes, groups, features, group or offset.`);
    const [n, A, m] = [this.document.models, this.groups.length, this.classes.length];
    if (features !== null) joint = this.posterior(features);
    if (joint === null && hasShape(classes, m) && hasShape(groups, A, m)) {
      joint = groups.map((shares) => shares.map((q, i) => q * classes[i]));
    }
    const models = n > 1 ? joint : [joint];
    if (!hasShape(models, n, A, m) || models.some((z) => !(Math.abs(total(z.flat()) - 1) <= 1e-3))) {
      throw new Error("joint: must be a list of classes for each group, of probabilities that sum to one.");
    }
    if (Math.min(...models.flat(2)) < 0) throw new Error("joint: a probability is negative.");
    if (offset !== null && !(hasShape(offset, m) && Math.max(...offset.map(Math.abs)) <= LARGEST_OFFSET)) {
      throw new Error(`offset: must be a list of ${m} numbers, of at most ${LARGEST_OFFSET}.`);
    }
    const place = this.document.aware ? this.place(group, features) : null;
    return columns(models.map((z) => this.apply(this.calibrated(z, place), offset))).map((h) => total(h) / h.length);
  }

  // Return the position of a group, or null; what is missing is a group of its own where the rule has one.
  place(group, features) {
    const number = (part) => (["boolean", "bigint"].includes(typeof part) ? Number(part) : part); // true is 1
    const label = (parts) => JSON.stringify(parts.map(number));
    const labels = this.groups.map((name) => label([name].flat()));
    const [length, absent] = [[this.groups[0]].flat().length, isMissing(group)];
    const parts = Array.isArray(group) ? group : new Array(absent ? length : 1).fill(group);
    const isPlain = labels.includes(label(parts)) || this.document.missing !== "group";
    const names = isPlain ? parts : parts.map((part) => (isMissing(part) ? MISSING : part));
    const isName = (part) => isText(part) || hasShape(number(part));
    const fits = names.length === length && names.every(isName);
    const place = fits ? labels.indexOf(label(names)) : -1;
    if (place < 0 && (this.document.unseen === "error" || !fits)) {
      throw new Error(`group=${show(group)}: must be one of ${JSON.stringify(this.groups)}.`);
    }
    const attributes = absent && features !== null && !Array.isArray(features) ? this.document.about.attributes : [];
    if (place >= 0 && attributes.some((name) => Object.hasOwn(features, name) && !isMissing(features[name]))) {
      throw new Error("group: missing, and the features have one; give it as the group too.");
    }
    return place < 0 ? null : place;
  }

  // Return h of one calibrated z, cell by cell.
  apply(z, offset) {
    const { weights, temperatures, share, constant } = this.rule;
    const scores = product(z, weights, constant.length).map((s, j) => s + (offset ? offset[j] : 0));
    const best = Math.max(...scores);
    const tau = total(z.map((p, k) => p * temperatures[k]));
    const first = scores.findIndex((s) => s >= best - 1e-12);
    const isDrawn = temperatures.some((t) => t !== 0);
    const h = isDrawn ? softmax(scores.map((s) => (s - best) / tau)) : scores.map((_, j) => Number(j === first));
    return h.map((p, j) => (1 - share) * p + share * constant[j]);
  }

  // Return z, calibrated, as a list of cells: (group 0, class 0), (group 0, class 1), ...
  calibrated(z, place) {
    const [calibration, A, m] = [this.document.calibration ?? {}, this.groups.length, z[0].length];
    const [kind, sums] = [calibration.kind, columns(z).map(total)];
    if (place !== null) {
      const own = total(z[place]);
      let block = own > 0 && kind !== "own" ? z[place].map((p) => p / own) : sums;
      if (kind === "aware") block = linear(calibration.groups[place], [...block, ...sums], m);
      return this.groups.flatMap((_, a) => block.map((p) => (a === place ? p : 0)));
    }
    let [classes, cells] = [sums, z];
    if (kind === "joint") {
      const flat = linear(calibration.scaling, z.flat(), A * m);
      if (!calibration.keeps_classes) return flat;
      cells = z.map((_, b) => flat.slice(b * m, b * m + m));
    } else if (kind === "factors") {
      const shares = sums.map((sum, i) => z.map((row) => (sum > 0 ? row[i] / sum : 1 / A)));
      cells = columns(calibration.groups.map((scaling, i) => linear(scaling, [...shares[i], ...sums], A)));
      classes = calibration.classes ? linear(calibration.classes, sums, m) : sums;
    } else {
      return z.flat();
    }
    const norms = columns(cells).map(total);
    return cells.flatMap((row) => row.map((p, i) => (norms[i] > 0 ? p / norms[i] : 1 / A) * classes[i]));
  }

  // Return z of an object, or an array, of features; a missing value is null, undefined, NaN or an absent key.
  posterior(features) {
    const models = this.document.posterior;
    if (models === null) {
      throw new Error("features: the models are not in this file; give joint, or classes and groups.");
    }
    const [x, A, m] = [new Array(models.size).fill(0), this.groups.length, this.classes.length];
    const names = models.columns.map((column) => column.name);
    const [isList, isNamed] = [Array.isArray(features), names[0] !== null];
    if (isList === isNamed || typeof features !== "object" || (isList && features.length !== names.length)) {
      throw new Error(`features: must be ${isNamed ? "an object" : "a list"} of ${names.length} values.`);
    }
    if (isNamed) {
      const absent = names.filter((name) => !Object.hasOwn(features, name));
      const given = Object.keys(features);
      const vocabulary = [...names, ...models.unread, ...this.document.about.attributes];
      if (absent.length === names.length) {
        throw new Error(`features: ${JSON.stringify(given)}: must have the names ${names.slice(0, 20)}.`);
      }
      const strange = absent.length ? given.filter((name) => !vocabulary.includes(name)) : []; // they may be misspelt
      if (strange.length) {
        const rule = "leave out one or give the other, null if it is missing.";
        throw new Error(`features: '${strange[0]}' is no feature of the model, and '${absent[0]}' is absent; ${rule}`);
      }
    }
    models.columns.forEach((column, k) => {
      const name = isList ? k : column.name;
      const value = Object.hasOwn(features, name) ? features[name] : null;
      const missing = isMissing(value) && (value !== "" || "levels" in column);
      let [number, place] = [missing ? column.median : value, column.place];
      if (column.levels && (missing || isText(value) || hasShape(value) || typeof value === "bigint")) {
        const text = missing ? null : cellText(value, name);
        const known = Object.hasOwn(column.levels, text) ? column.levels[text] : column.other;
        [number, place] = [1, missing ? column.missing : known];
      }
      if (!hasShape(number)) {
        const kind = column.levels ? "a number or valid text" : "a number";
        throw new Error(`${name}: must be ${kind}; got ${show(value)}.`);
      }
      if (place !== null) x[place] = Number(number);
      if (missing && column.gap !== null) x[column.gap] = 1;
    });
    if (models.joint) {
      const cells = linear(models.joint, x, A * m);
      return this.groups.map((_, a) => cells.slice(a * m, a * m + m));
    }
    const [p, shares] = [linear(models.classes, x, m), models.groups.map((model) => linear(model, x, A))];
    return this.groups.map((_, a) => p.map((q, i) => q * shares[i][a]));
  }
}

// Yield the number and the bytes of each line that is not blank.
function* filledLines(content) {
  for (let start = 0, number = 1, end; start < content.length; start = end + 1, number++) {
    end = content.indexOf("\n", start);
    end = end < 0 ? content.length : end;
    const line = content.subarray(start, end);
    if (line.some((byte) => byte !== 32 && (byte < 9 || byte > 13))) yield [number, line];
  }
}

// Return what is answered to the bytes of a line.
function lineAnswer(scorer, line) {
  let request;
  try {
    request = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(line));
  } catch (error) {
    throw new Error(`not JSON in UTF-8 (${error.message}).`);
  }
  if (request === null || typeof request !== "object" || Array.isArray(request)) {
    throw new Error('must be an object, such as {"person": "id-17", "features": {"age": 31}}.');
  }
  const { person = null, key = null, ...posterior } = request;
  if (person !== null && key !== null) throw new Error("person, key: two names of the id; give one of them.");
  const id = person ?? key;
  if (id === null && scorer.document.decision !== "argmax") {
    throw new Error("person: missing, and answers are drawn by it; say who it is.");
  }
  return { answer: scorer.answer(id, posterior), probabilities: scorer.probabilities(posterior) };
}

// Answer the lines of the standard input, each in its place; return the exit code.
function main(options) {
  const isHelp = options.includes("--help") || options.includes("-h");
  if (isHelp || options.length !== 1) {
    (isHelp ? process.stdout : process.stderr).write(USAGE);
    return isHelp ? 0 : 2;
  }
  let [scorer, code] = [null, 0];
  try {
    scorer = load(options[0]);
    if (scorer.key === null && scorer.document.decision !== "argmax") {
      throw new Error("key: missing, and answers are drawn by it; set OPTFAIR_KEY.");
    }
  } catch (error) {
    process.stderr.write(`optfair_score.mjs: ${error.message}\n`);
    return 2;
  }
  for (const [number, line] of filledLines(readFileSync(0))) {
    let reply;
    try {
      reply = lineAnswer(scorer, line);
    } catch (error) {
      // Whatever it is, the people behind this line get their answers.
      [reply, code] = [{ error: error.message, line: number }, 1];
    }
    console.log(JSON.stringify(reply));
  }
  return code;
}

// Whether this file was started: it may be through a link, which Node follows for the address of a module.
const command = process.argv[1];
if (command && existsSync(command) && realpathSync(command) === realpathSync(fileURLToPath(import.meta.url))) {
  process.exitCode = main(process.argv.slice(2));
}
