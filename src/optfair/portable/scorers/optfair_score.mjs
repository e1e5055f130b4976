// Score people by a fair rule, with nothing but JavaScript (Node 18 or newer, Deno, Bun). Written by optfair.
//
//   import { load } from "./optfair_score.mjs";
//   const scorer = load("fair.json", { keyFile: "fair.skops.key" });   // or the key in the environment, as OPTFAIR_KEY
//   scorer.answer("id-17", { joint: z });                              // z[a][i] = P(A=a, Y=i | x)
//   scorer.answer("id-17", { classes: p, groups: q });                 // p[i] = P(Y=i | x), q[a][i] = P(A=a | x, Y=i)
//   scorer.answer("id-17", { features: { age: 31 } });                 // where fair.json holds the models
//   node optfair_score.mjs fair.json < people.jsonl > answers.jsonl
//
// A line of people.jsonl is {"person": "id-17", "features": {"age": 31}}, or with joint, or classes and groups, in place
// of features. A file that was changed, or whose own test vectors do not come out here, is refused.

import { createHash, createHmac } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const CERTAIN = 1 - 2 ** -30; // such a probability counts as one
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const columns = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Return a scorer. key : 32 bytes or hexadecimal digits, by default from keyFile or $OPTFAIR_KEY.
export function load(path, { key = null, keyFile = null } = {}) {
  const content = readFileSync(path);
  const digest = createHash("sha256").update(content.subarray(77)).digest("hex");
  if (content.subarray(0, 77).toString("latin1") !== `{"sha256":"${digest}",`) {
    throw new Error(`${path}: is damaged, or was changed; export it again.`);
  }
  let keys = [key ?? process.env.OPTFAIR_KEY ?? null];
  if (key === null && keyFile !== null) {
    if (process.platform !== "win32" && statSync(keyFile).mode & 0o077) {
      throw new Error(`${keyFile}: others can read the key; chmod 600.`);
    }
    const lines = readFileSync(keyFile, "ascii").split("\n");
    keys = lines.filter((line) => line.trim()).map((line) => line.trim().split(/\s+/).pop());
  }
  return new Scorer(JSON.parse(content.toString("utf8")), keys);
}

// -- who a person is ------------------------------------------------------------------------------------------------
const bytes = (tag, ...parts) => Buffer.concat([Buffer.from(tag), ...parts]);

// Return what is hashed of a person, by an id or several; 17, 17n and "17" are one.
export function personBytes(person) {
  if (person instanceof Uint8Array) return bytes("b", person);
  if (typeof person === "string") return bytes("s", Buffer.from(person, "utf8"));
  if (Array.isArray(person)) {
    const parts = person.map(personBytes).map((part) => {
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(part.length));
      return Buffer.concat([length, part]);
    });
    return bytes("t", ...parts);
  }
  if (typeof person === "boolean" || typeof person === "bigint" || Number.isInteger(person)) {
    if (Number.isInteger(person) && !Number.isSafeInteger(person)) {
      throw new Error(`person=${person}: JavaScript has lost digits of this number; give it as text or as a BigInt.`);
    }
    return bytes("s", Buffer.from(BigInt(person).toString()));
  }
  if (typeof person === "number" && Number.isFinite(person)) {
    const number = Buffer.alloc(8);
    number.writeDoubleLE(person);
    return bytes("f", number);
  }
  throw new Error(`person=${person}: must be text, a number, bytes, or a list of these.`);
}

// Return the first eight bytes of a keyed hash.
export function keyed(key, content, hashing) {
  return hashing === "blake2b" ? blake2b(key, content) : createHmac("sha256", key).update(content).digest().subarray(0, 8);
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

const product = (row, matrix) => matrix[0].map((_, j) => row.reduce((sum, x, k) => sum + x * matrix[k][j], 0));

// Return softmax(x · slopes + intercepts), each probability at its cell among all of them.
function linear(model, x) {
  const out = new Array(model.size).fill(0);
  const shares = softmax(product(x, model.slopes).map((s, j) => s + model.intercepts[j]));
  model.cells.forEach((cell, j) => (out[cell] = shares[j]));
  return out;
}

// Return calibrated probabilities, which are linear in logarithms.
const scaled = (scaling, values) => linear(scaling, scaling.inputs.map((k) => Math.log(Math.max(values[k], scaling.clip))));

// A fair rule, with the calibration of the probabilities it is for, and with the models where they are linear.
export class Scorer {
  constructor(document, keys = []) {
    if (document.format !== "optfair scorer" || document.version !== 1) {
      throw new Error("not a scorer of version 1; export it again with this release of optfair.");
    }
    Object.assign(this, { document, key: null, rule: document.rule });
    Object.assign(this, { classes: document.classes, groups: document.groups, hashing: document.hashing });
    this.check(document.vectors);
    const given = keys.filter((key) => key !== null).map((key) => (typeof key === "string" ? Buffer.from(key, "hex") : key));
    for (const key of given) {
      if (keyed(key, Buffer.from("optfair key"), this.hashing).toString("hex") === document.fingerprint) this.key = key;
    }
    if (this.key === null && given.length) throw new Error("key: not the one that belongs to this rule.");
  }

  // Refuse to work where the test vectors of the file do not come out.
  check({ key, slack, cases }) {
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
    let u = null;
    if (this.document.decision !== "argmax" && Math.max(...h) < CERTAIN) {
      if (this.key === null) throw new Error("key: missing, and this answer is drawn by it; set OPTFAIR_KEY, or give keyFile.");
      u = draw(this.key, person, this.hashing);
    }
    return this.decide(h, u);
  }

  // Return the class for probabilities h and a number u in [0, 1).
  decide(h, u) {
    const best = Math.max(...h);
    if (this.document.decision === "argmax") return this.classes[h.findIndex((p) => p >= best - 1e-12)];
    return this.classes[best >= CERTAIN ? h.indexOf(best) : choose(h, u)];
  }

  // Return the probability of each class as the answer. group : of the person, for a rule that uses it.
  probabilities({ joint = null, classes = null, groups = null, features = null, group = null, offset = null }) {
    if (features !== null) joint = this.posterior(features);
    if (joint === null) joint = groups.map((shares) => shares.map((q, i) => q * classes[i]));
    const models = this.document.models > 1 ? joint : [joint];
    for (const z of models) {
      const hasShape = z.length === this.groups.length && z.every((row) => row.length === this.classes.length);
      if (!hasShape || !(Math.abs(total(z.flat()) - 1) <= 1e-3)) {
        throw new Error("joint: must be a list of classes for each group, of probabilities that sum to one.");
      }
      if (Math.min(...z.flat()) < 0) throw new Error("joint: a probability is negative.");
    }
    return columns(models.map((z) => this.apply(this.calibrated(z, group), offset))).map((h) => total(h) / h.length);
  }

  // Return h of one calibrated z, cell by cell.
  apply(z, offset) {
    const { weights, temperatures, share, constant } = this.rule;
    const scores = product(z, weights).map((s, j) => s + (offset ? offset[j] : 0));
    const best = Math.max(...scores);
    const tau = total(z.map((p, k) => p * temperatures[k]));
    const first = scores.findIndex((s) => s >= best - 1e-12);
    const h = temperatures.some((t) => t !== 0) ? softmax(scores.map((s) => (s - best) / tau)) : scores.map((_, j) => +(j === first));
    return h.map((p, j) => (1 - share) * p + share * constant[j]);
  }

  // Return z, calibrated, as a list of cells: (group 0, class 0), (group 0, class 1), ...
  calibrated(z, group) {
    const [calibration, A, m] = [this.document.calibration ?? {}, this.groups.length, z[0].length];
    const [kind, sums] = [calibration.kind, columns(z).map(total)];
    const a = this.groups.findIndex((name) => same(name, group));
    if (this.document.aware && (a >= 0 || this.document.unseen === "error")) {
      if (a < 0) throw new Error(`group=${JSON.stringify(group)}: must be one of ${JSON.stringify(this.groups)}.`);
      const own = total(z[a]);
      let block = own > 0 && kind !== "own" ? z[a].map((p) => p / own) : sums;
      if (kind === "aware") block = scaled(calibration.groups[a], [...block, ...sums]);
      return this.groups.flatMap((_, b) => block.map((p) => (a === b ? p : 0)));
    }
    let [classes, cells] = [sums, z];
    if (kind === "joint") {
      const flat = scaled(calibration.scaling, z.flat());
      if (!calibration.keeps_classes) return flat;
      cells = z.map((_, b) => flat.slice(b * m, b * m + m));
    } else if (kind === "factors") {
      const shares = sums.map((sum, i) => z.map((row) => (sum > 0 ? row[i] / sum : 1 / A)));
      cells = columns(calibration.groups.map((scaling, i) => scaled(scaling, [...shares[i], ...sums])));
      classes = calibration.classes ? scaled(calibration.classes, sums) : sums;
    } else {
      return z.flat();
    }
    const norms = columns(cells).map(total);
    return cells.flatMap((row) => row.map((p, i) => (norms[i] > 0 ? p / norms[i] : 1 / A) * classes[i]));
  }

  // Return z of an object, or an array, of features; a missing value is null, undefined, NaN or an absent key.
  posterior(features) {
    const models = this.document.posterior;
    if (models === null) throw new Error("features: the models are not in this file; give joint, or classes and groups.");
    const [x, m] = [new Array(models.size).fill(0), this.classes.length];
    if (!Array.isArray(features)) {
      const names = models.columns.map((column) => column.name);
      const absent = names.filter((name) => !Object.hasOwn(features, name)).map((name) => name.toLowerCase());
      const given = Object.keys(features);
      const strange = given.filter((name) => !names.includes(name) && absent.includes(name.toLowerCase()));
      if (strange.length || absent.length === names.length) {
        throw new Error(`features: ${JSON.stringify(strange.length ? strange : given)}: must have the names ${names.slice(0, 20)}.`);
      }
    }
    models.columns.forEach((column, k) => {
      const value = Array.isArray(features) ? features[k] : Object.hasOwn(features, column.name) ? features[column.name] : null;
      const missing = value === null || value === undefined || Number.isNaN(value) || (value === "" && "levels" in column);
      let [number, place] = [missing ? column.median : value, column.place];
      if (column.levels) {
        const text = typeof value === "boolean" ? (value ? "True" : "False") : String(value).replace(/^(-?\d+)\.0$/, "$1");
        const known = Object.hasOwn(column.levels, text) ? column.levels[text] : column.other;
        [number, place] = [1, missing ? column.missing : known];
      }
      if (!["number", "boolean"].includes(typeof number) || !Number.isFinite(Number(number))) {
        throw new Error(`${column.name ?? k}: must be a number; got ${JSON.stringify(value)}.`);
      }
      if (place !== null) x[place] = Number(number);
      if (missing && column.gap !== null) x[column.gap] = 1;
    });
    if (models.joint) {
      const cells = linear(models.joint, x);
      return this.groups.map((_, a) => cells.slice(a * m, a * m + m));
    }
    const [p, shares] = [linear(models.classes, x), models.groups.map((model) => linear(model, x))];
    return this.groups.map((_, a) => p.map((q, i) => q * shares[i][a]));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const scorer = load(process.argv[2]);
  for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const { person = null, ...posterior } = JSON.parse(line);
    console.log(JSON.stringify({ answer: scorer.answer(person, posterior), probabilities: scorer.probabilities(posterior) }));
  }
}
