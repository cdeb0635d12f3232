// Products of bf16 numbers in tiles of 16 rows of 16 words, by AMX or in plain C++ that gives the
// same bits. Included like vector_math.h, and after templates.h: no #pragma once, no includes.

constexpr std::int64_t kTileRows = 16, kTileWords = 16;

// Intel's AMX (Software Developer's Manual, volume 1, chapter 18). A tile's number is a constant of
// the instruction, here a template's.
struct AmxTiles {
  struct Configuration {
    constexpr Configuration() {
      for (int tile = 0; tile < 8; ++tile) {
        row_bytes[tile] = kTileWords * sizeof(Word);
        rows[tile] = kTileRows;
      }
    }
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Configuration) == 64);

  static void begin() {
    static constexpr Configuration kConfiguration;
    asm volatile("ldtilecfg %0" ::"m"(kConfiguration));
  }
  // Until then, the thread's switches of context save 8 KiB of tiles.
  static void end() { asm volatile("tilerelease"); }
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  // The stride is in words.
  template <int kTile>
  static void load_tile(const Word* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride * 4), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store_tile(float* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride * 4), "i"(kTile)
                 : "memory");
  }
  // sums (floats) += a · b, both bf16 numbers in pairs
  template <int kSums, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }
};

// As the manual's pseudocode of TDPBF16PS has it: products of even and of odd numbers are summed
// apart, each by one rounding, then both sums are added; denormals are zeros.
struct PlainTiles {
  static inline thread_local Word tiles[8][kTileRows][kTileWords];

  static Float flushed(Float x) {
    const Int bits = reinterpret_cast<Int>(x), magnitude = bits & 0x7fffffff;
    return reinterpret_cast<Float>(magnitude < 0x00800000 ? bits - magnitude : bits);
  }
  static Float even(Float words) {
    return flushed(reinterpret_cast<Float>(reinterpret_cast<Int>(words) << 16));
  }
  static Float odd(Float words) {
    return flushed(reinterpret_cast<Float>(reinterpret_cast<Int>(words) & -0x10000));
  }
  static Float words(const Word* from) { return load(reinterpret_cast<const float*>(from)); }

  static void begin() {}
  static void end() {}
  template <int kTile>
  static void zero() {
    __builtin_memset(tiles[kTile], 0, sizeof tiles[kTile]);
  }
  template <int kTile>
  static void load_tile(const Word* from, std::int64_t stride) {
    for (int row = 0; row < kTileRows; ++row)
      __builtin_memcpy(tiles[kTile][row], from + row * stride, sizeof tiles[kTile][row]);
  }
  template <int kTile>
  static void store_tile(float* to, std::int64_t stride) {
    for (int row = 0; row < kTileRows; ++row)
      __builtin_memcpy(to + row * stride, tiles[kTile][row], sizeof tiles[kTile][row]);
  }
  template <int kSums, int kA, int kB>
  static void multiply() {
    for (int row = 0; row < kTileRows; ++row)
      for (int c = 0; c < kTileWords; c += kLanes) {
        Float evens{}, odds{};
        for (int k = 0; k < kTileWords; ++k) {
          const Float a = broadcast_word(tiles[kA][row][k]), b = words(tiles[kB][k] + c);
          evens = flushed(even(a) * even(b) + evens);  // fused
          odds = flushed(odd(a) * odd(b) + odds);
        }
        float* const sums = reinterpret_cast<float*>(tiles[kSums][row] + c);
        store(sums, flushed(flushed(load(sums)) + flushed(evens + odds)));
      }
  }
};

// An operand's tile, filled up with zeros where it has fewer rows or words.
template <class Tiles, int kTile>
inline void load_part(const Word* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t words) {
  if (rows >= kTileRows && words >= kTileWords)
    return Tiles::template load_tile<kTile>(from, stride);
  alignas(64) Word all[kTileRows * kTileWords] = {};
  for (std::int64_t row = 0; row < kTileRows && row < rows; ++row)
    for (std::int64_t word = 0; word < kTileWords && word < words; ++word)
      all[row * kTileWords + word] = from[row * stride + word];
  Tiles::template load_tile<kTile>(all, kTileWords);
}

// The first `rows` rows of a tile's sums.
template <class Tiles, int kTile>
inline void store_part(std::int64_t rows, float* to, std::int64_t stride) {
  if (rows >= kTileRows) return Tiles::template store_tile<kTile>(to, stride);
  alignas(64) float all[kTileRows * kTileWords];
  Tiles::template store_tile<kTile>(all, kTileWords);
  for (std::int64_t row = 0; row < rows; ++row)
    __builtin_memcpy(to + row * stride, all + row * kTileWords, kTileWords * sizeof(float));
}

// Tiles 0 to 3 are the sums, upper ones first, 4 and 5 the left operand's, 6 and 7 the panel's.
template <class Tiles, bool kTwoHigh>
void multiply_by_tiles(std::int64_t rows, const LinearProduct& product) {
  constexpr std::int64_t kColumns = 2 * kTileWords;
  const std::int64_t steps = (product.words + kTileWords - 1) / kTileWords;
  const Word* const lower = product.a + kTileRows * product.a_stride;
  LookAhead ahead(product);
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t k = step * kTileWords, words = product.words - k;
    const Word* const panel = product.panel + k * kColumns;
    ahead.look_for_line();
    load_part<Tiles, 4>(product.a + k, product.a_stride, rows, words);
    load_part<Tiles, 6>(panel, kColumns, words, kTileWords);
    load_part<Tiles, 7>(panel + kTileWords, kColumns, words, kTileWords);
    if constexpr (kTwoHigh)
      load_part<Tiles, 5>(lower + k, product.a_stride, rows - kTileRows, words);
    Tiles::template multiply<0, 4, 6>();
    Tiles::template multiply<1, 4, 7>();
    if constexpr (kTwoHigh) {
      Tiles::template multiply<2, 5, 6>();
      Tiles::template multiply<3, 5, 7>();
    }
    if (product.before)  // while the processor multiplies
      product.before->finish_until(product.before->rows * (step + 1) / steps);
  }
  store_part<Tiles, 0>(rows, product.sums, product.sums_stride);
  store_part<Tiles, 1>(rows, product.sums + kTileWords, product.sums_stride);
  if constexpr (kTwoHigh) {
    float* const sums = product.sums + kTileRows * product.sums_stride;
    store_part<Tiles, 2>(rows - kTileRows, sums, product.sums_stride);
    store_part<Tiles, 3>(rows - kTileRows, sums + kTileWords, product.sums_stride);
  }
}

template <class Tiles>
void multiply_in_tiles(std::int64_t rows, const LinearProduct& product) {
  rows > kTileRows ? multiply_by_tiles<Tiles, true>(rows, product)
                   : multiply_by_tiles<Tiles, false>(rows, product);
}

template <class Tiles>
Kernels make_tile_kernels(const char* name) {
  constexpr int kRows = 2 * kTileRows, kVectors = 2 * kTileWords / kLanes;
  Kernels kernels = make_kernels<std::uint16_t, kRows, kVectors>(name, multiply_in_tiles<Tiles>);
  kernels.row_unit = kRows;
  kernels.begin = Tiles::begin;
  kernels.end = Tiles::end;
  return kernels;
}
