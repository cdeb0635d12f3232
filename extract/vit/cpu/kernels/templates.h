// The kernels, written once for every vector width and element. Included like vector_math.h, and
// after it: no #pragma once, no includes. E is float, std::uint16_t for bf16, or Half.

// add() multiplies a word of the left operand with a vector of words of the right one.
struct FloatProduct {
  static Float add(Float sums, Float a, Float b) { return sums + a * b; }
};

// A little at each word of a row: much at once would hold up what is wanted now.
class LookAhead {
 public:
  explicit LookAhead(const LinearProduct& product)
      : next_(product.ahead), step_(product.ahead_step) {}
  void look() {
    __builtin_prefetch(next_, 0, 2);
    next_ += step_;
  }
  // As often as a cache line of a row has words.
  void look_for_line() {
    constexpr std::int64_t kLine = 64 / sizeof(Word);
    for (std::int64_t line = 0; line < step_; ++line, next_ += kLine)
      __builtin_prefetch(next_, 0, 2);
  }

 private:
  const Word* next_;
  std::int64_t step_;
};

inline void finish_before(const LinearProduct& product) {
  if (product.before) product.before->finish_all();
}

// The left operand, a word of each row at a time. Rows are addressed by a pointer for every three
// and one of three offsets, so that 12 rows take 7 registers: with a pointer or an offset for each,
// GCC is short of them and keeps some in vector registers, at the price of a multiply-add each.
template <int kRows>
class LeftRows {
 public:
  explicit LeftRows(const LinearProduct& product) : stride_(product.a_stride) {
    for (int g = 0; g < kGroups; ++g) first_[g] = product.a + 3 * g * stride_;
  }
  Word operator[](int row) const { return first_[row / 3][row % 3 * stride_]; }
  void next() {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) ++first_[g];
  }

 private:
  static constexpr int kGroups = (kRows + 2) / 3;
  const Word* first_[kGroups];
  std::int64_t stride_;
};

// The sums [kRows, kVectors · kLanes] stay in registers; a word of each of kRows rows at a time
// meets one row of the panel.
template <int kRows, int kVectors, class Each>
void multiply_rows(const LinearProduct& product) {
  Float sums[kRows][kVectors] = {};
  finish_before(product);
  LeftRows<kRows> left(product);
  LookAhead ahead(product);
  const Word* panel = product.panel;
  const Word* const end = panel + product.words * kVectors * kLanes;
  for (; panel < end; panel += kVectors * kLanes) {
    ahead.look();
    Float b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      b[v] = load(reinterpret_cast<const float*>(panel + v * kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Float word = broadcast_word(left[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Each::add(sums[r][v], word, b[v]);
    }
    left.next();
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      store(product.sums + r * product.sums_stride + v * kLanes, sums[r][v]);
}

template <int kRows, int kVectors, class Each>
void multiply(std::int64_t rows, const LinearProduct& product) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply<kRows - 1, kVectors, Each>(rows, product);
  }
  multiply_rows<kRows, kVectors, Each>(product);
}

// The first `count` lanes alone, at most all.
inline Float load_first(const float* from, std::int64_t count) {
  if (count >= kLanes) return load(from);
  Float x{};
  for (std::int64_t i = 0; i < count; ++i) x[i] = from[i];
  return x;
}

template <class E>
inline void store_first(E* to, Float x, std::int64_t count) {
  if (count >= kLanes) return store(to, x);
  for (std::int64_t i = 0; i < count; ++i) store_one(to + i, x[i]);
}

// Calls body(row, column, sums, columns left) for each vector of sums.
template <class Body>
inline void for_each_sum(const Tile& tile, Body body) {
  for (std::int64_t r = tile.first_row; r < tile.rows; ++r)
    for (std::int64_t c = 0; c < tile.columns; c += kLanes)
      body(r, c, load(tile.sums + r * tile.stride + c), tile.columns - c);
}

// The same, with body's result as elements of `out`.
template <class E, class Body>
inline void store_each(const Tile& tile, Body body) {
  E* const out = static_cast<E*>(tile.out);
  for_each_sum(tile, [&](std::int64_t r, std::int64_t c, Float x, std::int64_t left) {
    store_first(out + r * tile.out_stride + c, body(r, c, x), left);
  });
}

template <class E>
void store_tile(const Tile& tile) {
  store_each<E>(tile,
                [&](std::int64_t, std::int64_t c, Float x) { return x + load(tile.bias + c); });
}

template <class E, class F>
void activation_tile(const Tile& tile) {
  store_each<E>(
      tile, [&](std::int64_t, std::int64_t c, Float x) { return F::of(x + load(tile.bias + c)); });
}

template <class E, class F, int kHalf>
void gate_tile(const Tile& tile) {
  store_each<E>(tile, [&](std::int64_t r, std::int64_t c, Float x) {
    const Float value = load(tile.sums + r * tile.stride + kHalf + c);
    return F::of(x + load(tile.bias + c)) * (value + load(tile.bias + kHalf + c));
  });
}

template <class E, class F, int kHalf>
constexpr ActivationKernels activation() {
  return {activation_tile<E, F>, gate_tile<E, F, kHalf>};
}

inline void add_tile(const Tile& tile) {
  float* const out = static_cast<float*>(tile.out);
  for_each_sum(tile, [&](std::int64_t r, std::int64_t c, Float x, std::int64_t left) {
    float* const to = out + r * tile.out_stride + c;
    store_first(to, load_first(to, left) + (x + load(tile.bias + c)), left);
  });
}

template <class E>
void scale_tile(const Tile& tile) {
  store_each<E>(tile, [&](std::int64_t r, std::int64_t, Float x) { return x * tile.bias[r]; });
}

template <class In, class Out>
inline void norm_row(const In* x, std::int64_t width, const NormFactors& factors, Out* out) {
  const std::int64_t whole = width / kLanes * kLanes;
  const float *const weight = factors.weight, *const bias = factors.bias;
  float mean = 0;
  if (factors.centred) {
    Float sums{};
    for (std::int64_t c = 0; c < whole; c += kLanes) sums += load(x + c);
    float sum = sum_of(sums);
    for (std::int64_t c = whole; c < width; ++c) sum += load_one(x + c);
    mean = sum / static_cast<float>(width);
  }
  Float squares{};
  for (std::int64_t c = 0; c < whole; c += kLanes) {
    const Float centred = load(x + c) - mean;
    squares += centred * centred;
  }
  float square = sum_of(squares);
  for (std::int64_t c = whole; c < width; ++c)
    square += (load_one(x + c) - mean) * (load_one(x + c) - mean);
  const float inverse = 1 / __builtin_sqrtf(square / static_cast<float>(width) + factors.epsilon);
  for (std::int64_t c = 0; c < whole; c += kLanes)
    store(out + c, (load(x + c) - mean) * inverse * load(weight + c) + load(bias + c));
  for (std::int64_t c = whole; c < width; ++c)
    store_one(out + c, (load_one(x + c) - mean) * inverse * weight[c] + bias[c]);
}

template <class E>
void norm(const float* x, std::int64_t rows, std::int64_t width, const NormFactors& factors,
          void* to) {
  E* const out = static_cast<E*>(to);
  for (std::int64_t r = 0; r < rows; ++r) norm_row(x + r * width, width, factors, out + r * width);
}

template <class E>
void norm_in_place(void* of, std::int64_t stride, std::int64_t rows, std::int64_t width,
                   const NormFactors& factors) {
  E* const x = static_cast<E*>(of);
  for (std::int64_t r = 0; r < rows; ++r)
    norm_row<E, E>(x + r * stride, width, factors, x + r * stride);
}

template <class E>
void rotate(void* of, std::int64_t stride, std::int64_t rows, std::int64_t half, Turn first,
            Turn second) {
  E* left = static_cast<E*>(of);
  for (std::int64_t r = 0; r < rows; ++r, left += stride) {
    E* const right = left + half;
    const std::int64_t row = r * half;
    std::int64_t c = 0;
    for (; c + kLanes <= half; c += kLanes) {
      const Float a = load(left + c), b = load(right + c);
      store(left + c, a * load(first.cosine + row + c) - b * load(first.sine + row + c));
      store(right + c, b * load(second.cosine + row + c) + a * load(second.sine + row + c));
    }
    for (; c < half; ++c) {
      const float a = load_one(left + c), b = load_one(right + c);
      store_one(left + c, a * first.cosine[row + c] - b * first.sine[row + c]);
      store_one(right + c, b * second.cosine[row + c] + a * second.sine[row + c]);
    }
  }
}

template <class E>
void softmax(const float* scores, std::int64_t stride, std::int64_t rows, std::int64_t count,
             float factor, void* to, float* inverse_sums) {
  const std::int64_t whole = count / kLanes * kLanes, rest = count - whole;
  Float least = broadcast(-__builtin_inff());
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const in = scores + r * stride;
    E* const out = static_cast<E*>(to) + r * stride;
    const Float last = rest ? first_lanes(load(in + whole), rest, least) : least;
    Float most = last;
    for (std::int64_t c = 0; c < whole; c += kLanes)
      most = load(in + c) > most ? load(in + c) : most;
    const float shift = max_of(most) * factor;
    Float sums{};
    const auto raise = [&](std::int64_t c, Float x) {
      const Float power = exp2_of_negative(x * factor - shift);
      sums += power;
      store(out + c, power);
    };
    for (std::int64_t c = 0; c < whole; c += kLanes) raise(c, load(in + c));
    if (rest) raise(whole, last);
    inverse_sums[r] = 1 / sum_of(sums);
  }
}

template <class E>
void convert(const float* in, std::int64_t count, void* to) {
  E* const out = static_cast<E*>(to);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, load(in + i));
  for (; i < count; ++i) store_one(out + i, in[i]);
}

// Works in blocks of rows that stay in the first-level cache.
template <int kColumns>
void pack_transposed(const Word* in, std::int64_t stride, std::int64_t count, std::int64_t words,
                     Word* out) {
  constexpr std::int64_t kBlock = 8;
  for (std::int64_t first = 0; first < count; first += kColumns, out += words * kColumns)
    for (std::int64_t block = 0; block < kColumns; block += kBlock) {
      const Word* const rows = in + (first + block) * stride;
      const std::int64_t left = count - first - block;
      for (std::int64_t w = 0; w < words; ++w) {
        Word* const to = out + w * kColumns + block;
        if (left >= kBlock)
#pragma GCC unroll 8
          for (std::int64_t c = 0; c < kBlock; ++c) to[c] = rows[c * stride + w];
        else
          for (std::int64_t c = 0; c < kBlock; ++c) to[c] = c < left ? rows[c * stride + w] : 0;
      }
    }
}

// Word w of column c: the float of row w, or the bf16 numbers of rows 2·w and 2·w + 1.
template <class E, int kColumns>
void pack(const void* from, std::int64_t stride, std::int64_t count, std::int64_t width,
          Word* out) {
  constexpr std::int64_t kPerWord = sizeof(Word) / sizeof(E);
  const E* const in = static_cast<const E*>(from);
  const auto element = [&](std::int64_t row, std::int64_t c) {
    Word bits = 0;
    if (row < count && c < width) __builtin_memcpy(&bits, in + row * stride + c, sizeof(E));
    return bits;
  };
  for (std::int64_t first = 0; first < width; first += kColumns)
    for (std::int64_t row = 0; row < count; row += kPerWord, out += kColumns) {
      if (row + kPerWord <= count && first + kColumns <= width) {
        const E* const rows = in + row * stride + first;
        for (std::int64_t c = 0; c < kColumns; ++c) {
          if constexpr (kPerWord == 1)
            __builtin_memcpy(out + c, rows + c, sizeof(Word));
          else
            out[c] = static_cast<Word>(rows[c]) | static_cast<Word>(rows[stride + c]) << 16;
        }
        continue;
      }
      for (std::int64_t c = 0; c < kColumns; ++c) {
        out[c] = element(row, first + c);
        if constexpr (kPerWord == 2) out[c] |= element(row + 1, first + c) << 16;
      }
    }
}

template <class E, int kRows, int kVectors>
Kernels make_kernels(const char* name, decltype(Kernels::multiply) product) {
  constexpr int kColumns = kVectors * static_cast<int>(kLanes);
  Kernels kernels;
  kernels.name = name;
  kernels.element = element_of(static_cast<const E*>(nullptr));
  kernels.rows = kRows;
  kernels.columns = kColumns;
  kernels.multiply = product;
  kernels.store = store_tile<E>;
  kernels.add = add_tile;
  kernels.scale = scale_tile<E>;
  kernels.gelu = activation<E, Gelu, kColumns / 2>();
  kernels.gelu_tanh = activation<E, GeluTanh, kColumns / 2>();
  kernels.quick_gelu = activation<E, QuickGelu, kColumns / 2>();
  kernels.silu = activation<E, Silu, kColumns / 2>();
  kernels.norm = norm<E>;
  kernels.norm_in_place = norm_in_place<E>;
  kernels.rotate = rotate<E>;
  kernels.softmax = softmax<E>;
  kernels.convert = convert<E>;
  kernels.pack_transposed = pack_transposed<kColumns>;
  kernels.pack = pack<E, kColumns>;
  return kernels;
}
