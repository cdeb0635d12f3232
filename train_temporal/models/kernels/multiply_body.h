// Matrix product in tiles of registers. Included by each instruction set's file after its Vector,
// in that file's unnamed namespace.

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
