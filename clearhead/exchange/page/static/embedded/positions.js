// Section 3.5: how a model knows the order of its tokens, and four later schemes.
//
// A scheme does one of three things: `embed` adds to the embeddings, `rotate` turns queries and keys, and `bias` adds to
// the scores of attention.

const BUCKETS = 32, MAX_DISTANCE = 128;

/** No order at all. Schemes replace one of the methods. */
class Unordered {
  endless = true; // any position is valid; a table has a last one
  bias = null;
  embed() {}
  rotate() {}
}

/** PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same. `halves` puts all sines first. */
class Sinusoidal extends Unordered {
  constructor(halves) { super(); [this.endless, this.halves] = [false, halves]; }

  embed(x, first) {
    const half = Math.ceil(x.cols / 2);
    for (let i = 0; i < x.cols; i += 2) {
      const frequency = Math.exp((i * -Math.log(10_000)) / x.cols), sin = this.halves ? i / 2 : i, cos = this.halves ? half + i / 2 : i + 1;
      for (let t = 0; t < x.rows; t++) {
        x.data[t * x.cols + sin] += Math.sin((first + t) * frequency);
        if (cos < x.cols) x.data[t * x.cols + cos] += Math.cos((first + t) * frequency);
      }
    }
  }
}

/** A learned table of the same shape, (max_len, D). */
class Learned extends Unordered {
  constructor(table) { super(); [this.endless, this.table] = [false, table]; }

  embed(x, first) {
    for (let i = 0; i < x.data.length; i++) x.data[i] += this.table.data[first * x.cols + i];
  }
}

/** Rotate each pair (x_i, x_{i + K/2}) of every head by an angle that grows with the position (Su et al. 2021). */
class Rotary extends Unordered {
  constructor(width, base, scaling) {
    super();
    this.width = width;
    this.frequencies = Array.from({length: width / 2}, (_, i) => stretched(base ** (-2 * i / width), scaling));
  }

  rotate(x, first) { // (T, H*K), in place
    const half = this.width / 2;
    for (let t = 0; t < x.rows; t++) for (let i = 0; i < half; i++) {
      const angle = (first + t) * this.frequencies[i], cos = Math.cos(angle), sin = Math.sin(angle);
      for (let at = t * x.cols + i; at < (t + 1) * x.cols; at += this.width) {
        const a = x.data[at], b = x.data[at + half];
        x.data[at] = a * cos - b * sin;
        x.data[at + half] = b * cos + a * sin;
      }
    }
  }
}

/** Lower a frequency, so that it covers longer texts: [], [factor], [factor, short, long] of YaRN, or [factor, low, high, length] of Llama 3. */
function stretched(frequency, scaling) {
  if (scaling.length < 3) return frequency / (scaling[0] ?? 1);
  const [factor, low, high, length] = scaling, wave = (2 * Math.PI) / frequency;
  const part = length === undefined ? Math.log(wave / high) / Math.log(low / high) : (length / wave - low) / (high - low);
  const kept = Math.min(Math.max(part, 0), 1);
  return kept * frequency + ((1 - kept) * frequency) / factor;
}

/** A learned bias for each head and bucket of distances (Raffel et al. 2020): the table is (buckets, H). */
class Relative extends Unordered {
  constructor(table, twoSided) {
    super();
    [this.table, this.twoSided] = [table, twoSided];
  }

  /** The bucket of a key's position minus a query's. Small distances have one each, larger ones share. */
  bucket(distance) {
    const n = this.twoSided ? BUCKETS / 2 : BUCKETS, offset = this.twoSided && distance > 0 ? n : 0, exact = n / 2;
    const away = this.twoSided ? Math.abs(distance) : Math.max(-distance, 0);
    if (away < exact) return offset + away;
    const growth = Math.fround((n - exact) / Math.log(MAX_DISTANCE / exact)); // float32, as in Python: a bucket's edge is exact
    const far = exact + Math.trunc(Math.fround(Math.fround(Math.log(Math.fround(away / exact))) * growth));
    return offset + Math.min(far, n - 1);
  }

  bias = (head, distance) => this.table.data[this.bucket(distance) * this.table.cols + head];
}

/** Subtract a slope times the distance, with a fixed slope for each head (Press et al. 2022). */
class Alibi extends Unordered {
  constructor(heads, twoSided) {
    super();
    [this.slopes, this.twoSided] = [slopesOf(heads), twoSided];
  }

  bias = (head, distance) => -this.slopes[head] * (this.twoSided ? Math.abs(distance) : Math.max(-distance, 0));
}

/** 2^(-8/n), 2^(-16/n), ..., 2^-8; if n isn't a power of two, those of the power below, then every second of the one above. */
function slopesOf(n) {
  const power = 2 ** Math.floor(Math.log2(n));
  return Array.from({length: n}, (_, head) => (head < power ? 2 ** ((-8 * (head + 1)) / power) : 2 ** ((-4 * (2 * (head - power) + 1)) / power)));
}

/** The scheme of a stack. `table` returns a learned one. */
export function positionsOf({positions, n_heads: heads, d_head: width, rotary_base: base, rotary_scaling: scaling}, table, twoSided) {
  return {
    sinusoidal: () => new Sinusoidal(false), sinusoidal_halves: () => new Sinusoidal(true), learned: () => new Learned(table()),
    rotary: () => new Rotary(width, base, scaling), relative: () => new Relative(table(), twoSided), alibi: () => new Alibi(heads, twoSided),
  }[positions]();
}
