// Matrices of float32, row after row, and the product in which a model spends its time.

/** A matrix of (rows, cols). */
export class Matrix {
  constructor(rows, cols, data = new Float32Array(rows * cols)) {
    [this.rows, this.cols, this.data] = [rows, cols, data];
  }

  copy() { return new Matrix(this.rows, this.cols, this.data.slice()); }

  row(t) { return this.data.subarray(t * this.cols, (t + 1) * this.cols); }

  /** The rows from start to end, in the same memory. */
  span(start, end) { return new Matrix(end - start, this.cols, this.data.subarray(start * this.cols, end * this.cols)); }
}

/**
 * x W^T. (T, D), (F, D) -> (T, F)
 *
 * Two rows of x meet four of W at once, so that each number that is read takes part in several products. Where fewer are
 * left, the last one is repeated.
 */
export function product(x, w) {
  const d = x.cols, a = x.data, b = w.data, out = new Matrix(x.rows, w.rows), y = out.data, last = w.rows - 1;
  for (let f = 0; f <= last; f += 4) {
    const f1 = Math.min(f + 1, last), f2 = Math.min(f + 2, last), f3 = Math.min(f + 3, last);
    const w0 = f * d, w1 = f1 * d, w2 = f2 * d, w3 = f3 * d;
    for (let t = 0; t < x.rows; t += 2) {
      const u = Math.min(t + 1, x.rows - 1), p = t * d, q = u * d;
      let p0 = 0, p1 = 0, p2 = 0, p3 = 0, q0 = 0, q1 = 0, q2 = 0, q3 = 0;
      for (let i = 0; i < d; i++) {
        const xp = a[p + i], xq = a[q + i], v0 = b[w0 + i], v1 = b[w1 + i], v2 = b[w2 + i], v3 = b[w3 + i];
        p0 += xp * v0; p1 += xp * v1; p2 += xp * v2; p3 += xp * v3;
        q0 += xq * v0; q1 += xq * v1; q2 += xq * v2; q3 += xq * v3;
      }
      const at = t * w.rows, also = u * w.rows;
      y[at + f] = p0; y[at + f1] = p1; y[at + f2] = p2; y[at + f3] = p3;
      y[also + f] = q0; y[also + f1] = q1; y[also + f2] = q2; y[also + f3] = q3;
    }
  }
  return out;
}

/** x + y. (T, D), (T, D) -> (T, D) */
export function sum(x, y) {
  const out = new Matrix(x.rows, x.cols);
  for (let i = 0; i < out.data.length; i++) out.data[i] = x.data[i] + y.data[i];
  return out;
}

/** Columns of a matrix, copied. (T, D) -> (T, n) */
export function columns(x, first, n) {
  const out = new Matrix(x.rows, n);
  for (let t = 0; t < x.rows; t++) out.data.set(x.data.subarray(t * x.cols + first, t * x.cols + first + n), t * n);
  return out;
}

/** Replace each row of logits by log-probabilities. (T, V) */
export function logSoftmax(x) {
  for (let t = 0; t < x.rows; t++) {
    const row = x.row(t);
    let largest = -Infinity, total = 0;
    for (let i = 0; i < row.length; i++) if (row[i] > largest) largest = row[i];
    for (let i = 0; i < row.length; i++) total += Math.exp(row[i] - largest);
    const normaliser = largest + Math.log(total);
    for (let i = 0; i < row.length; i++) row[i] -= normaliser;
  }
  return x;
}
