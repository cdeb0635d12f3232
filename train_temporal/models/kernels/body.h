// The inner loops, written once. kernels.cpp includes this file for each instruction set, after the
// set's Vector and within the set's namespace; hence no #pragma once and no includes.

using F = Vector::F;

// W values at i, and the n < W at the end of a row.
struct FullVector {
  std::int64_t i;
  template <typename Value>
  F load(const Value* p) const {
    return Vector::load(p + i);
  }
  void store(float* p, F x) const { Vector::store(p + i, x); }
};
struct PartialVector {
  std::int64_t i, n;
  template <typename Value>
  F load(const Value* p) const {
    return Vector::load_first(p + i, n);
  }
  void store(float* p, F x) const { Vector::store_first(p + i, x, n); }
};

// body(i, n) for i = 0, W, 2W, …; n: how many values are left, at most W.
template <typename Body>
inline void for_vectors(std::int64_t count, Body body) {
  std::int64_t i = 0;
  for (; i + Vector::kWidth <= count; i += Vector::kWidth) body(FullVector{i});
  if (i < count) body(PartialVector{i, count - i});
}

// 2^n − 1 + 2^n (e^r − 1) for x = n ln 2 + r, |r| ≤ ln 2 / 2: the parts of e^x that lose nothing
// near 0. The polynomial is that of Cephes' expf (Moshier 1984).
struct Exponential {
  F power, rest;  // 2^n, e^r − 1
};

inline Exponential exponential(F x) {
  const F n = Vector::round(Vector::mul(x, Vector::set(1.44269504088896341f)));
  F r = Vector::fma(n, Vector::set(-0.693359375f), x);
  r = Vector::fma(n, Vector::set(2.12194440e-4f), r);
  F p = Vector::set(1.9875691500e-4f);
  p = Vector::fma(p, r, Vector::set(1.3981999507e-3f));
  p = Vector::fma(p, r, Vector::set(8.3334519073e-3f));
  p = Vector::fma(p, r, Vector::set(4.1665795894e-2f));
  p = Vector::fma(p, r, Vector::set(1.6666665459e-1f));
  p = Vector::fma(p, r, Vector::set(5.0000001201e-1f));
  return {Vector::power_of_two(n), Vector::fma(Vector::mul(r, r), p, r)};
}

// Both min and max keep their second operand when one is NaN, so that NaN stays NaN.
inline F sigmoid_of(F x) {
  const F bounded = Vector::min(Vector::set(87), Vector::max(Vector::set(-87), x));
  const Exponential e = exponential(Vector::sub(Vector::set(0), bounded));
  const F one = Vector::set(1);
  return Vector::div(one, Vector::add(one, Vector::fma(e.power, e.rest, e.power)));
}

// tanh |x| = −(e^(−2|x|) − 1) / (e^(−2|x|) + 1), and 1 to float32's precision from 9.1 on.
inline F tanh_of(F x) {
  const F size = Vector::min(Vector::set(15), Vector::absolute(x));
  const Exponential e = exponential(Vector::mul(Vector::set(-2), size));
  const F less_one = Vector::fma(e.power, e.rest, Vector::sub(e.power, Vector::set(1)));
  const F t =
      Vector::div(Vector::sub(Vector::set(0), less_one), Vector::add(Vector::set(2), less_one));
  return Vector::with_sign_of(t, x);
}

void sigmoid(std::int64_t n, const float* x, float* y) {
  for_vectors(n, [&](auto at) { at.store(y, sigmoid_of(at.load(x))); });
}

void tanh(std::int64_t n, const float* x, float* y) {
  for_vectors(n, [&](auto at) { at.store(y, tanh_of(at.load(x))); });
}

void gates(const GateStep& s) {
  const std::int64_t h = s.hidden;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const float* input = s.input + row * 3 * h;
    const float* recurrent = s.recurrent + row * s.recurrent_row;
    float* state = s.state + row * h;
    float* previous = s.previous + row * h;
    float* saved = s.gates + row * 4 * h;
    float* out = s.out + row * s.out_row;
    for_vectors(h, [&](auto at) {
      const F r = sigmoid_of(Vector::add(at.load(input), at.load(recurrent)));
      const F z = sigmoid_of(Vector::add(at.load(input + h), at.load(recurrent + h)));
      const F inner = at.load(recurrent + 2 * h);
      const F n = tanh_of(Vector::fma(r, inner, at.load(input + 2 * h)));
      const F before = at.load(state);
      const F after = Vector::fma(z, Vector::sub(before, n), n);  // (1 − z) n + z h
      at.store(saved, r);
      at.store(saved + h, z);
      at.store(saved + 2 * h, n);
      at.store(saved + 3 * h, inner);
      at.store(previous, before);
      at.store(state, after);
      at.store(out, after);
    });
  }
}

void gate_gradients(const GateGradient& g) {
  const std::int64_t h = g.hidden;
  const F one = Vector::set(1);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const float* saved = g.gates + row * 4 * h;
    const float* previous = g.previous + row * h;
    const float* out = g.out + row * g.out_row;
    float* state = g.state + row * h;
    float* input = g.input + row * 3 * h;
    float* recurrent = g.recurrent + row * 3 * h;
    for_vectors(h, [&](auto at) {
      const F r = at.load(saved), z = at.load(saved + h), n = at.load(saved + 2 * h);
      const F whole = Vector::add(at.load(state), at.load(out));
      const F through_z = Vector::mul(whole, Vector::sub(at.load(previous), n));
      const F dz = Vector::mul(through_z, Vector::mul(z, Vector::sub(one, z)));
      const F through_n = Vector::mul(whole, Vector::sub(one, z));
      const F dn = Vector::mul(through_n, Vector::sub(one, Vector::mul(n, n)));
      const F through_r = Vector::mul(dn, at.load(saved + 3 * h));
      const F dr = Vector::mul(through_r, Vector::mul(r, Vector::sub(one, r)));
      at.store(input, dr);
      at.store(input + h, dz);
      at.store(input + 2 * h, dn);
      at.store(recurrent, dr);
      at.store(recurrent + h, dz);
      at.store(recurrent + 2 * h, Vector::mul(dn, r));
      at.store(state, Vector::mul(whole, z));
    });
  }
}

template <typename Value>
inline void gather_rows(const Gather& g, const Value* table) {
  float* out = g.out;
  for (const std::int64_t row : g.rows) {
    const Value* from = table + row * g.width;
    for_vectors(g.width, [&](auto at) {
      const F centred = Vector::sub(at.load(from), at.load(g.mean));
      at.store(out, Vector::mul(centred, at.load(g.scale)));
    });
    out += g.out_row;
  }
}

void gather_half(const Gather& g, const std::uint16_t* table) {
  gather_rows(g, table);
}

void gather_float(const Gather& g, const float* table) {
  gather_rows(g, table);
}

void add_rows(std::int64_t m, std::int64_t n, const float* x, std::int64_t x_row, float* sum) {
  for_vectors(n, [&](auto at) {
    F total = at.load(sum);
    for (std::int64_t row = 0; row < m; ++row) total = Vector::add(total, at.load(x + row * x_row));
    at.store(sum, total);
  });
}

void scale(std::int64_t n, const float* factors, float* x) {
  for_vectors(n, [&](auto at) { at.store(x, Vector::mul(at.load(x), at.load(factors))); });
}

void add_scaled(std::int64_t n, float factor, const float* x, float* y) {
  const F f = Vector::set(factor);
  for_vectors(n, [&](auto at) { at.store(y, Vector::fma(f, at.load(x), at.load(y))); });
}

// Sums of products in 16 lanes whatever the vector width, so that the result does not depend on it.
class Lanes {
 public:
  Lanes() {
    for (F& sum : sums_) sum = Vector::set(0);
  }
  void add(F x, F y) {
    sums_[turn_] = Vector::fma(x, y, sums_[turn_]);
    turn_ = (turn_ + 1) % kVectors;
  }
  double total() const {
    float lanes[kLanes];
    for (int v = 0; v < kVectors; ++v) Vector::store(lanes + v * Vector::kWidth, sums_[v]);
    double sum = 0;
    for (float lane : lanes) sum += static_cast<double>(lane);
    return sum;
  }

 private:
  static constexpr int kLanes = 16, kVectors = kLanes / Vector::kWidth;
  F sums_[kVectors];
  int turn_ = 0;
};

float dot(std::int64_t n, const float* x, const float* y) {
  Lanes lanes;
  for_vectors(n, [&](auto at) { lanes.add(at.load(x), at.load(y)); });
  return static_cast<float>(lanes.total());
}

double add_all(std::int64_t n, std::span<float* const> sources) {
  Lanes squares;
  for_vectors(n, [&](auto at) {
    F total = at.load(sources[0]);
    for (std::size_t s = 1; s < sources.size(); ++s)
      total = Vector::add(total, at.load(sources[s]));
    at.store(sources[0], total);
    squares.add(total, total);
  });
  return squares.total();
}

void adam(const AdamStep& s) {
  const F scale = Vector::set(s.gradient_scale), rest = Vector::set(s.beta1_rest);
  const F beta2 = Vector::set(s.beta2), beta2_rest = Vector::set(s.beta2_rest);
  for_vectors(s.n, [&](auto at) {
    const F gradient = Vector::mul(at.load(s.gradients), scale);
    F first = at.load(s.first_moment);
    first = Vector::fma(rest, Vector::sub(gradient, first), first);
    F second = Vector::mul(at.load(s.second_moment), beta2);
    second = Vector::fma(Vector::mul(beta2_rest, gradient), gradient, second);
    F value = at.load(s.parameters);
    const F shrink = Vector::mul(Vector::set(-s.learning_rate), at.load(s.decay));
    value = Vector::fma(value, shrink, value);
    const F root = Vector::mul(Vector::sqrt(second), Vector::set(s.root_scale));
    const F change = Vector::div(first, Vector::add(root, Vector::set(s.epsilon)));
    at.store(s.first_moment, first);
    at.store(s.second_moment, second);
    at.store(s.parameters, Vector::fma(Vector::set(-s.step_size), change, value));
  });
}

void drop(std::int64_t n, const Drop& s, float* out) {
  float last[kDropBlock];
  for (std::int64_t i = 0; i < n; i += kDropBlock) {
    const std::uint64_t start = s.start + static_cast<std::uint64_t>(i);
    const bool whole = n - i >= kDropBlock;
    Vector::drop_block(start, s.threshold, s.scale, whole ? out + i : last);
    if (!whole) std::memcpy(out + i, last, static_cast<std::size_t>(n - i) * sizeof(float));
  }
}

void add_noise(std::int64_t n, const Noise& s, float* x) {
  const float* quantile = normal_quantiles();
  for (std::int64_t i = 0; i < n; i += 4) {
    const std::uint64_t bits = mix_bits(s.start + static_cast<std::uint64_t>(i));
    const std::int64_t end = n - i < 4 ? n - i : 4;
    for (std::int64_t part = 0; part < end; ++part) {
      x[i + part] += s.deviation * quantile[(bits >> (16 * part)) & (kQuantiles - 1)];
    }
  }
}

void transpose(std::int64_t m, std::int64_t n, const float* from, float* to, std::int64_t to_row) {
  constexpr std::int64_t kBlock = 16;  // a cache line of each
  for (std::int64_t i = 0; i < m; i += kBlock) {
    const std::int64_t rows = m - i < kBlock ? m - i : kBlock;
    for (std::int64_t j = 0; j < n; j += kBlock) {
      const std::int64_t columns = n - j < kBlock ? n - j : kBlock;
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r)
          to[(j + c) * to_row + i + r] = from[(i + r) * n + j + c];
      }
    }
  }
}

// The matrix product in tiles of registers.

// Rows × vectors of one tile: with the vectors of B and one value of A they fill the registers.
constexpr int kTileRows = Vector::kTileRows;
constexpr int kTileVectors = 3;
constexpr std::int64_t kDepth = 128;  // terms at a time: a panel of B then stays in the L1 cache

struct TileRange {
  std::int64_t row, column, from, to;  // of C, and of k
  std::int64_t tail;                   // values in the last vector when it is not full
};

template <int R, int V, bool kTail>
inline void load_tile(const Product& p, const TileRange& at, Vector::F (&sum)[R][V]) {
  const bool fresh = at.from == 0 && p.start != Product::Start::kAccumulate;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const float* c = p.c + (at.row + r) * p.c_row + at.column;
    if (fresh) c = p.start == Product::Start::kBias ? p.bias + at.column : nullptr;
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      if (c == nullptr) {
        sum[r][v] = Vector::set(0);
      } else if (kTail && v == V - 1) {
        sum[r][v] = Vector::load_first(c + v * Vector::kWidth, at.tail);
      } else {
        sum[r][v] = Vector::load(c + v * Vector::kWidth);
      }
    }
  }
}

template <int R, int V, bool kTail>
inline void store_tile(const Product& p, const TileRange& at, const Vector::F (&sum)[R][V]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* c = p.c + (at.row + r) * p.c_row + at.column;
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      if (kTail && v == V - 1) {
        Vector::store_first(c + v * Vector::kWidth, sum[r][v], at.tail);
      } else {
        Vector::store(c + v * Vector::kWidth, sum[r][v]);
      }
    }
  }
}

template <int R, int V, bool kTail, bool kTransposed>
void tile(const Product& p, const TileRange& at) {
  Vector::F sum[R][V];
  load_tile<R, V, kTail>(p, at, sum);
  const float* a =
      kTransposed ? p.a + at.from * p.a_row + at.row : p.a + at.row * p.a_row + at.from;
  const float* b = p.b + at.from * p.b_row + at.column;
  for (std::int64_t k = at.from; k < at.to; ++k) {
    Vector::F column[V];
    for (int v = 0; v < V; ++v) {
      column[v] = kTail && v == V - 1 ? Vector::load_first(b + v * Vector::kWidth, at.tail)
                                      : Vector::load(b + v * Vector::kWidth);
    }
    for (int r = 0; r < R; ++r) {
      const Vector::F row = Vector::set(kTransposed ? a[r] : a[r * p.a_row]);
      for (int v = 0; v < V; ++v) sum[r][v] = Vector::fma(row, column[v], sum[r][v]);
    }
    a += kTransposed ? p.a_row : 1;
    b += p.b_row;
  }
  store_tile<R, V, kTail>(p, at, sum);
}

using Tile = void (*)(const Product&, const TileRange&);

template <int V, bool kTail, bool kTransposed, int... R>
constexpr Tile tile_of_rows(std::int64_t rows, std::integer_sequence<int, R...>) {
  constexpr Tile tiles[] = {tile<R + 1, V, kTail, kTransposed>...};
  return tiles[rows - 1];
}

template <bool kTail, bool kTransposed>
Tile tile_of(std::int64_t rows, std::int64_t vectors) {
  constexpr auto kRows = std::make_integer_sequence<int, kTileRows>();
  if (vectors == 1) return tile_of_rows<1, kTail, kTransposed>(rows, kRows);
  if (vectors == 2) return tile_of_rows<2, kTail, kTransposed>(rows, kRows);
  return tile_of_rows<3, kTail, kTransposed>(rows, kRows);
}

Tile choose_tile(std::int64_t rows, std::int64_t vectors, bool tail, bool transposed) {
  if (tail)
    return transposed ? tile_of<true, true>(rows, vectors) : tile_of<true, false>(rows, vectors);
  return transposed ? tile_of<false, true>(rows, vectors) : tile_of<false, false>(rows, vectors);
}

void multiply(const Product& p) {
  constexpr std::int64_t kColumns = kTileVectors * Vector::kWidth;
  std::int64_t from = 0;
  do {
    const std::int64_t to = p.k < from + kDepth ? p.k : from + kDepth;
    for (std::int64_t column = 0; column < p.n; column += kColumns) {
      const std::int64_t left = p.n - column < kColumns ? p.n - column : kColumns;
      const std::int64_t vectors = (left + Vector::kWidth - 1) / Vector::kWidth;
      const std::int64_t tail = left - (vectors - 1) * Vector::kWidth;
      const bool partial = tail < Vector::kWidth;
      const Tile whole = choose_tile(kTileRows, vectors, partial, p.a_transposed);
      std::int64_t row = 0;
      for (; row + kTileRows <= p.m; row += kTileRows) whole(p, {row, column, from, to, tail});
      if (row == p.m) continue;
      choose_tile(p.m - row, vectors, partial, p.a_transposed)(p, {row, column, from, to, tail});
    }
    from = to;
  } while (from < p.k);
}

constexpr SequenceKernels table_of(const char* name) {
  return {name,      multiply,   gates, gate_gradients, gather_half, gather_float, add_rows,
          scale,     add_scaled, dot,   add_all,        adam,        transpose,    drop,
          add_noise, sigmoid,    tanh};
}
