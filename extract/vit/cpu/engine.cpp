#include "extract/vit/cpu/engine.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/cpu/kernels/kernels.h"
#include "extract/vit/weights.h"

namespace coldframe::vit::cpu {

// Cuts rows into tiles of nearly the same height, so that none is left with a few rows.

inline std::int64_t tile_count(const Kernels& kernels, std::int64_t rows) {
  return (rows + kernels.rows - 1) / kernels.rows;
}

// Where a part of nearly equal ones begins, so that all but the last have whole units of rows.
inline std::int64_t part_begin(const Kernels& kernels, std::int64_t rows, std::int64_t part,
                               std::int64_t parts) {
  return std::min(rows, round_up(rows * part / parts, kernels.row_unit));
}

// body(first row, rows) for tiles of at most kernels.rows rows that cover [begin, end).
template <class Body>
void for_each_tile(const Kernels& kernels, std::int64_t begin, std::int64_t end, Body body) {
  const std::int64_t rows = end - begin, tiles = tile_count(kernels, rows);
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t from = part_begin(kernels, rows, i, tiles);
    body(begin + from, part_begin(kernels, rows, i + 1, tiles) - from);
  }
}

// The memory that a thread computes images in.

// Rows that pass through the MLP together, so that its hidden layer stays in the
// second-level cache.
inline constexpr std::int64_t kMlpRows = 200;

// Rows of several images that make few of the last tile's rows idle.
inline constexpr std::int64_t kRowsTogether = 800;

struct Engine::Workspace {
  explicit Workspace(const Engine& engine)
      : x(torch::empty({engine.images_together_ * engine.tokens_, engine.architecture_.width})),
        tokens(torch::empty_like(x)) {
    const Architecture& shape = engine.architecture_;
    const auto type = scalar_type(engine.kernels_.element);
    const std::int64_t rows = x.size(0), mlp_rows = round_up(kMlpRows, engine.kernels_.row_unit);
    normed = torch::empty({rows, shape.width}, type);
    qkv = torch::empty({rows, 3 * shape.width}, type);
    hidden = torch::empty({std::min(mlp_rows, rows), shape.mlp_hidden}, type);
    const std::int64_t words = engine.patch_embed_.in_words;
    pixels = torch::zeros(
        {engine.grid_.patches(), words * elements_per_word(engine.kernels_.element)}, type);
    attention.emplace_back(engine.kernels_, engine.tokens_, shape.width / shape.heads);
  }

  torch::Tensor x;                          // [rows, width] float, what the blocks add to
  torch::Tensor tokens;                     // [rows, width] float, x after the last norm
  torch::Tensor normed;                     // [rows, width], also what attention gives
  torch::Tensor qkv;                        // [rows, 3·width]
  torch::Tensor hidden;                     // [rows of the MLP, mlp_hidden]
  torch::Tensor pixels;                     // [patches, 3·tubelet·patch²], in whole words
  std::vector<AttentionScratch> attention;  // one for each thread that shares these images
};

namespace {

constexpr std::int64_t kMaxSums = 1024;  // of a tile

// Rows of the input per pass over the weights: as many as half a megabyte holds, so that they stay
// in the second-level cache next to a panel.
std::int64_t rows_per_pass(std::int64_t rows, std::int64_t words) {
  const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << 19) / (words * 4), 96);
  const std::int64_t passes = (rows + most - 1) / most;
  return (rows + passes - 1) / passes;
}

// Words of the next panel that come nearer at each word of a row, so that all of it is there before
// this one's last tile ends. A power of two, as `columns` is: whole tiles cover the panel.
std::int64_t words_ahead(const Kernels& kernels, std::int64_t rows) {
  const std::int64_t tiles = tile_count(kernels, rows);
  const std::int64_t share = (kernels.columns + tiles - 1) / tiles;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(share)));
}

}  // namespace

std::int64_t padded_width(const Kernels& kernels, std::int64_t width) {
  return round_up(width, elements_per_word(kernels.element));
}

PackedLinear::PackedLinear(const Kernels& with, torch::ScalarType type, const torch::Tensor& weight,
                           const torch::Tensor& shift, const torch::Tensor& scale)
    : kernels(&with), out_width(weight.size(0)), out_columns(with.columns) {
  const std::int64_t in = weight.size(1), width = padded_width(with, in);
  in_words = width / elements_per_word(with.element);
  torch::Tensor scaled = scale.defined() ? weight * scale.unsqueeze(1) : weight;
  scaled = scaled.to(type).to(scalar_type(with.element));
  scaled = at::constant_pad_nd(scaled, {0, width - in}).contiguous();
  const std::int64_t padded = round_up(out_width, with.columns);
  panels = torch::empty({padded / with.columns, in_words, with.columns}, torch::kInt32);
  with.pack_transposed(static_cast<const Word*>(scaled.const_data_ptr()), in_words, out_width,
                       in_words, static_cast<Word*>(panels.data_ptr()));
  bias = torch::zeros({padded}, torch::kFloat32);
  if (shift.defined()) bias.narrow(0, 0, out_width).copy_(scale.defined() ? shift * scale : shift);
}

PackedLinear PackedLinear::gated(const Kernels& with, torch::ScalarType type,
                                 const torch::Tensor& weight, const torch::Tensor& shift) {
  const std::int64_t half = with.columns / 2, hidden = weight.size(0) / 2;
  const std::int64_t padded = round_up(hidden, half);
  // [2·hidden, n] -> [2·padded, n]: `half` rows of gates, as many of values, and so on.
  const auto in_turn = [&](const torch::Tensor& rows) {
    const std::int64_t n = rows.size(1);
    return at::constant_pad_nd(rows.view({2, hidden, n}), {0, 0, 0, padded - hidden})
        .view({2, padded / half, half, n})
        .transpose(0, 1)
        .reshape({2 * padded, n});
  };
  PackedLinear linear(with, type, in_turn(weight),
                      shift.defined() ? in_turn(shift.unsqueeze(1)).squeeze(1) : shift);
  linear.out_width = hidden;
  linear.out_columns = half;
  return linear;
}

void PackedLinear::apply(const void* in, std::int64_t rows, Epilogue finish, void* out,
                         std::int64_t out_stride) const {
  const std::int64_t element =
      finish == kernels->add ? 4 : kernels->element_bytes();  // bytes of one of `out`
  const auto* a = static_cast<const Word*>(in);
  const auto* weights = static_cast<const Word*>(panels.const_data_ptr());
  const float* shift = bias.const_data_ptr<float>();
  const std::int64_t pass = round_up(rows_per_pass(rows, in_words), kernels->row_unit);
  for (std::int64_t first = 0; first < rows; first += pass) {
    const std::int64_t last = std::min(rows, first + pass);
    const std::int64_t step = words_ahead(*kernels, last - first);
    at::parallel_for(0, panels.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      const ProductState state(*kernels);
      alignas(64) float sums[2][kMaxSums];  // in turn
      int turn = 0;
      Pending pending;
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const std::int64_t column = panel * out_columns;
        const std::int64_t columns = std::min(out_columns, out_width - column);
        const Word* const words = weights + panel * kernels->columns * in_words;
        const Word* ahead = words + kernels->columns * in_words;
        const Word* const ahead_end = ahead + (panel + 1 < end ? kernels->columns * in_words : 0);
        for_each_tile(*kernels, first, last, [&](std::int64_t row, std::int64_t count) {
          const std::int64_t ahead_step = ahead < ahead_end ? step : 0;
          float* const own = sums[turn ^= 1];
          kernels->multiply(count, {a + row * in_words, in_words, words, in_words, own,
                                    kernels->columns, &pending, ahead, ahead_step});
          ahead += ahead_step * in_words;
          pending = {finish,
                     count,
                     {own, kernels->columns, count, columns, shift + panel * kernels->columns,
                      static_cast<char*>(out) + (row * out_stride + column) * element, out_stride}};
        });
      }
      pending.finish_all();
    });
  }
}

namespace {

constexpr std::int64_t kQueryRows = 48;

void add_rows(const float* from, std::int64_t rows, std::int64_t columns, float* to,
              std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row, from += columns, to += stride)
    for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
}

Word* words_of(const torch::Tensor& tensor) {
  return static_cast<Word*>(tensor.data_ptr());
}

}  // namespace

AttentionScratch::AttentionScratch(const Kernels& kernels, std::int64_t tokens,
                                   std::int64_t head_width)
    : padded_(round_up(tokens, kernels.columns)) {
  const std::int64_t per_word = elements_per_word(kernels.element);
  const std::int64_t head_columns = round_up(head_width, kernels.columns);
  const std::int64_t rows = round_up(kQueryRows, kernels.row_unit);
  keys_ = torch::empty({padded_, head_width / per_word}, torch::kInt32);
  values_ = torch::empty({round_up(tokens, per_word) / per_word, head_columns}, torch::kInt32);
  scores_ = torch::empty({rows, padded_}, torch::kFloat32);
  probabilities_ = kernels.element == DType::kFp32
                       ? scores_
                       : torch::empty({rows, padded_}, scalar_type(kernels.element));
  inverse_sums_ = torch::empty({rows}, torch::kFloat32);
  sums_ = torch::empty({rows, head_columns}, torch::kFloat32);
}

void attend(const Kernels& kernels, const Head& head, AttentionScratch& scratch) {
  const std::int64_t tokens = head.tokens, head_width = head.width, width = head.row;
  const std::int64_t bytes = kernels.element_bytes();
  const std::int64_t per_word = elements_per_word(kernels.element);
  const std::int64_t head_words = head_width / per_word;
  const std::int64_t token_words = round_up(tokens, per_word) / per_word;
  const std::int64_t stride = 3 * width, stride_words = stride / per_word;
  const std::int64_t columns = kernels.columns, padded = scratch.padded_;
  const float factor = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(head_width));
  const auto* queries = static_cast<const char*>(head.qkv);
  const auto* query_words = static_cast<const Word*>(head.qkv);
  Word* const keys = words_of(scratch.keys_);
  Word* const values = words_of(scratch.values_);
  Word* const weights = words_of(scratch.probabilities_);
  float* const scores = scratch.scores_.data_ptr<float>();
  float* const sums = scratch.sums_.data_ptr<float>();
  kernels.pack_transposed(reinterpret_cast<const Word*>(queries + width * bytes), stride_words,
                          tokens, head_words, keys);
  kernels.pack(queries + 2 * width * bytes, stride, tokens, head_width, values);

  float* const inverse_sums = scratch.inverse_sums_.data_ptr<float>();
  const std::int64_t most_rows = scratch.scores_.size(0);
  const ProductState state(kernels);
  for (std::int64_t first = 0; first < tokens; first += most_rows) {
    const std::int64_t rows = std::min(most_rows, tokens - first);
    for (std::int64_t key = 0; key < padded; key += columns)
      for_each_tile(kernels, 0, rows, [&](std::int64_t row, std::int64_t count) {
        kernels.multiply(
            count, {query_words + (first + row) * stride_words, stride_words,
                    keys + key * head_words, head_words, scores + row * padded + key, padded});
      });
    if (head.bias) add_rows(head.bias + first * tokens, rows, tokens, scores, padded);
    kernels.softmax(scores, padded, rows, tokens, factor, weights, inverse_sums);
    for (std::int64_t column = 0; column < head_width; column += columns)
      for_each_tile(kernels, 0, rows, [&](std::int64_t row, std::int64_t count) {
        kernels.multiply(count, {weights + row * (padded / per_word), padded / per_word,
                                 values + column * token_words, token_words, sums, columns});
        kernels.scale(
            {sums, columns, count, std::min(columns, head_width - column), inverse_sums + row,
             static_cast<char*>(head.out) + ((first + row) * width + column) * bytes, width});
      });
  }
}

QueryKeyChanges::QueryKeyChanges(const AttentionWeights& weights, const Architecture& shape)
    : q_norm(weights.q_norm, weights.q_norm_bias, shape.norm_epsilon),
      k_norm(weights.k_norm, weights.k_norm_bias, shape.norm_epsilon),
      sine(weights.sine),
      cosine(weights.cosine),
      second_sine(weights.second_sine.defined() ? weights.second_sine : sine),
      second_cosine(weights.second_cosine.defined() ? weights.second_cosine : cosine),
      prefix(shape.prefix_tokens()) {}

void QueryKeyChanges::turn_as(const QueryKeyChanges& other) {
  sine = other.sine;
  cosine = other.cosine;
  second_sine = other.second_sine;
  second_cosine = other.second_cosine;
}

void QueryKeyChanges::apply(const Kernels& kernels, const Head& head, std::int64_t number) const {
  const std::int64_t bytes = kernels.element_bytes(), stride = 3 * head.row;
  const std::int64_t patches = head.tokens - prefix, half = head.width / 2;
  const std::int64_t own = sine.dim() == 3 ? number * patches * half : 0;
  const auto turn = [own](const torch::Tensor& sines, const torch::Tensor& cosines) {
    return Turn{sines.const_data_ptr<float>() + own, cosines.const_data_ptr<float>() + own};
  };
  auto* x = static_cast<char*>(head.qkv);
  for (const NormWeights* const norm : {&q_norm, &k_norm}) {
    if (*norm) kernels.norm_in_place(x, stride, head.tokens, head.width, norm->factors());
    if (sine.defined())
      kernels.rotate(x + prefix * stride * bytes, stride, patches, half, turn(sine, cosine),
                     turn(second_sine, second_cosine));
    x += head.row * bytes;  // from queries to keys
  }
}

namespace {

torch::Tensor plain(const torch::Tensor& parameter) {
  return !parameter.defined() ? parameter
                              : parameter.detach().to(torch::kCPU, torch::kFloat32).contiguous();
}

torch::Tensor defined_scale(const LayerScale& scale) {
  return scale ? plain(scale->gamma) : torch::Tensor();
}

// Null for an activation that no kernel computes.
const ActivationKernels* find_kernels(const Kernels& kernels, Activation activation) {
  const std::pair<Activation, const ActivationKernels*> known[] = {
      {Activation::kGelu, &kernels.gelu},
      {Activation::kGeluTanh, &kernels.gelu_tanh},
      {Activation::kQuickGelu, &kernels.quick_gelu},
      {Activation::kSilu, &kernels.silu}};
  for (const auto& [name, own] : known)
    if (name == activation) return own;
  return nullptr;
}

Epilogue end_of_fc1(const Kernels& kernels, const Architecture& shape) {
  const ActivationKernels& activation = *find_kernels(kernels, shape.activation);
  return shape.gated_mlp ? activation.gate : activation.alone;
}

// x (elements) [rows, width], unless there is no norm.
void normalise_in_place(const Kernels& kernels, const NormWeights& norm, void* x, std::int64_t rows,
                        std::int64_t width) {
  if (!norm) return;
  at::parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels.norm_in_place(static_cast<char*>(x) + begin * width * kernels.element_bytes(), width,
                          end - begin, width, norm.factors());
  });
}

}  // namespace

// Shares the norms, tokens and pooling of a model; the weights of its blocks and patches, which the
// engine packs, have shapes alone.
VisionTransformer Engine::without_blocks(const VisionTransformerImpl& model,
                                         const ImageSize& image_size) {
  class Source : public WeightSource {
   public:
    explicit Source(const VisionTransformerImpl& from) : parameters_(from.named_parameters()) {}
    torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
      const torch::Tensor* const found = parameters_.find(name);
      const bool packed = name.starts_with("blocks.") || name.starts_with("patch_embed.proj.");
      return found && found->sizes() == shape && !packed ? plain(*found)
                                                         : torch::empty(shape, torch::kMeta);
    }

   private:
    torch::OrderedDict<std::string, torch::Tensor> parameters_;
  };
  Source source(model);
  const std::int64_t frames = std::max<std::int64_t>(1, model.architecture.tubelet);
  return VisionTransformer(Scope(source), model.architecture, image_size, 0,
                           model.grid.steps * frames);
}

std::optional<std::string> refusal(const Architecture& shape, const Kernels& kernels) {
  if (auto reason = beyond_engines(shape)) return reason;
  if (!find_kernels(kernels, shape.activation)) return value_text(shape, "activation");
  const std::int64_t unit = elements_per_word(kernels.element);
  for (const std::int64_t size : {shape.width, shape.width / shape.heads, shape.mlp_hidden})
    if (size % unit != 0)
      return concat("its layers have ", size, " features, and ", kernels.name, " takes them in ",
                    "pairs");
  return std::nullopt;
}

Engine::Engine(const VisionTransformerImpl& model, const ImageSize& image_size,
               const Kernels& kernels, torch::ScalarType weights, bool frees)
    : kernels_(kernels),
      architecture_(model.architecture),
      image_size_(image_size),
      grid_(model.grid),
      tokens_(architecture_.prefix_tokens() + grid_.patches()),
      one_by_one_(architecture_.takes_clips() && tokens_ > kRowsTogether),
      images_together_(kernels.row_unit == 1 ? 1
                                             : std::max<std::int64_t>(1, kRowsTogether / tokens_)),
      model_(without_blocks(model, image_size)),
      patch_embed_(
          kernels, weights, plain(model.patch_embed->proj->weight).flatten(1),
          model.patch_embed->norm ? plain(model.patch_embed->proj->bias) : torch::Tensor()) {
  if (const auto reason = refusal(architecture_, kernels)) throw ConfigError(*reason);
  end_of_fc1_ = end_of_fc1(kernels, architecture_);
  for (const auto& module : model_->modules())
    if (const auto* const norm = module->as<NormImpl>(); norm && !norm->weight.is_meta())
      norms_.emplace(norm, NormWeights(norm->weight, norm->bias, norm->epsilon));
  start_ = starting_tokens(model, grid_.patches());
  const auto turns = rotations(architecture_, grid_, model.rope_freqs);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    blocks_.push_back(pack(*model.blocks[i], turns[i], weights));
    if (turns[i].sine.is_same(turns[0].sine)) blocks_[i].changes.turn_as(blocks_[0].changes);
    if (!frees) continue;
    for (torch::Tensor& packed : model.blocks[i]->parameters()) packed.set_data(torch::empty({0}));
  }
}

Engine::Block Engine::pack(const BlockImpl& block, const Rotation& rotation,
                           torch::ScalarType type) const {
  const auto packed = [&](const Linear& linear, const torch::Tensor& scale) {
    return PackedLinear(kernels_, type, plain(linear->weight), plain(linear->bias), scale);
  };
  const Branch& attends = block.branches[0][0];
  const Branch& mlp_branch = block.branches[1][0];
  const AttentionWeights attention = attention_weights(*attends.attention, rotation);
  const double head_width = static_cast<double>(architecture_.width / architecture_.heads);
  const Linear& fc1 = mlp_branch.mlp->fc1;
  return {NormWeights(attends.norm),
          NormWeights(mlp_branch.norm),
          NormWeights(attends.attention->norm),
          NormWeights(mlp_branch.mlp->norm),
          PackedLinear(kernels_, type, attention.qkv, attention.qkv_bias),
          packed(attends.attention->proj, defined_scale(attends.scale)),
          architecture_.gated_mlp
              ? PackedLinear::gated(kernels_, type, plain(fc1->weight), plain(fc1->bias))
              : packed(fc1, {}),
          packed(mlp_branch.mlp->fc2, defined_scale(mlp_branch.scale)),
          QueryKeyChanges(attention, architecture_),
          attends.attention->relative.defined()
              ? plain(attends.attention->relative) * std::sqrt(head_width)
              : torch::Tensor()};
}

Engine::~Engine() = default;

// x += attention(norm(x))
void Engine::add_attention(const Block& block, std::int64_t images, float* x,
                           Workspace& work) const {
  const std::int64_t rows = images * tokens_;
  normalise(block.norm1, x, rows, work);
  const std::int64_t width = architecture_.width, head_width = width / architecture_.heads;
  const std::int64_t bytes = kernels_.element_bytes();
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  auto* const qkv = static_cast<char*>(work.qkv.data_ptr());
  block.qkv.apply(normed, rows, kernels_.store, qkv, 3 * width);
  const std::int64_t heads = architecture_.heads;
  at::parallel_for(0, images * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionScratch& scratch = work.attention[static_cast<std::size_t>(at::get_thread_num())];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t number = i % heads, image = i / heads * tokens_ * width;
      const std::int64_t column = number * head_width;
      const float* const bias = block.relative.defined() ? block.relative.const_data_ptr<float>() +
                                                               number * tokens_ * tokens_
                                                         : nullptr;
      const Head head{tokens_,
                      head_width,
                      width,
                      qkv + (3 * image + column) * bytes,
                      normed + (image + column) * bytes,
                      bias};
      block.changes.apply(kernels_, head, number);
      attend(kernels_, head, scratch);
    }
  });
  normalise_in_place(kernels_, block.attention_norm, normed, rows, width);
  block.proj.apply(normed, rows, kernels_.add, x, width);
}

// x += mlp(norm(x))
void Engine::add_mlp(const Block& block, std::int64_t images, float* x, Workspace& work) const {
  const std::int64_t all = images * tokens_;
  normalise(block.norm2, x, all, work);
  const std::int64_t width = architecture_.width, inner = architecture_.mlp_hidden;
  const auto* const normed = static_cast<const char*>(work.normed.const_data_ptr());
  void* const hidden = work.hidden.data_ptr();
  const std::int64_t passes = (all + kMlpRows - 1) / kMlpRows;
  for (std::int64_t i = 0; i < passes; ++i) {
    const std::int64_t first = part_begin(kernels_, all, i, passes);
    const std::int64_t rows = part_begin(kernels_, all, i + 1, passes) - first;
    block.fc1.apply(normed + first * width * kernels_.element_bytes(), rows, end_of_fc1_, hidden,
                    inner);
    normalise_in_place(kernels_, block.mlp_norm, hidden, rows, inner);
    block.fc2.apply(hidden, rows, kernels_.add, x + first * width, width);
  }
}

// x (float) -> normed
void Engine::normalise(const NormWeights& norm, const float* x, std::int64_t rows,
                       Workspace& work) const {
  const std::int64_t width = architecture_.width;
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  at::parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels_.norm(x + begin * width, end - begin, width, norm.factors(),
                  normed + begin * width * kernels_.element_bytes());
  });
}

// What the CPU engine computes of a batch.

// The patches of an image [3, H, W] or clip [T, 3, H, W], step by step and row by row, as elements.
void Engine::take_patches(const float* images, void* pixels, std::int64_t row_bytes) const {
  const std::int64_t patch = architecture_.patch;
  const std::int64_t frames = model_->patch_embed->tubelet;  // of a patch
  at::parallel_for(0, grid_.steps * grid_.rows, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < grid_.columns; ++column)
        for (std::int64_t line = 0; line < 3 * frames * patch; ++line) {
          const std::int64_t channel = line / patch / frames;
          const std::int64_t frame = row / grid_.rows * frames + line / patch % frames;
          const std::int64_t y = row % grid_.rows * patch + line % patch;
          kernels_.convert(
              images + ((frame * 3 + channel) * image_size_.height + y) * image_size_.width +
                  column * patch,
              patch,
              static_cast<char*>(pixels) + (row * grid_.columns + column) * row_bytes +
                  line * patch * kernels_.element_bytes());
        }
  });
}

// The pass of images that a thread computes together, in float but for what blocks do inside.
// Values are rows of the workspace or of the result, where those that make up the features are put
// after one another.
class Engine::Pass {
 public:
  // Of the first image; those of each further one begin `step` floats later.
  struct Value {
    float* rows;
    std::int64_t count, step;
  };
  using Rotation = const Block*;  // its packed weights have the rotation

  // The result has `features` floats for each image.
  Pass(const Engine& engine, Workspace& work, std::int64_t images, float* result,
       std::int64_t features, float* kept)
      : engine_(engine),
        work_(work),
        images_(images),
        x_(work.x.data_ptr<float>()),
        width_(engine.architecture_.width),
        all_(engine.tokens_ * width_),
        result_(result),
        end_(result),
        features_(features),
        kept_(kept) {}

  Value patches(const Value& image, const PatchEmbedImpl&) {
    const Kernels& kernels = engine_.kernels_;
    void* const pixels = work_.pixels.data_ptr();
    const std::int64_t row_bytes = work_.pixels.stride(0) * kernels.element_bytes();
    const std::int64_t prefix = engine_.architecture_.prefix_tokens();
    const Value patches{x_ + prefix * width_, engine_.grid_.patches(), all_};
    for_each_image([&](std::int64_t i) {
      engine_.take_patches(image.rows + i * image.step, pixels, row_bytes);
      float* const out = patches.rows + i * all_;
      std::fill_n(out, patches.count * width_, 0.0f);
      engine_.patch_embed_.apply(pixels, patches.count, kernels.add, out, width_);
    });
    return patches;
  }
  Value with_start(const Value& patches, const VisionTransformerImpl&) {
    const float* const start = engine_.start_.const_data_ptr<float>();
    const std::int64_t prefix = patches.rows - x_;
    for_each_image([&](std::int64_t i) {
      float* const x = x_ + i * all_;
      std::copy_n(start, prefix, x);
      for (std::int64_t c = prefix; c < all_; ++c) x[c] += start[c];
    });
    return {x_, engine_.tokens_, all_};
  }
  // In place, but for what blocks add to.
  Value norm(const Value& x, const NormImpl& layer) {
    const bool stays = in_blocks_ && x.rows >= x_ && x.rows < x_ + all_;
    const Value out{stays ? work_.tokens.data_ptr<float>() + (x.rows - x_) : x.rows, x.count,
                    x.step};
    const NormFactors factors = engine_.norms_.at(&layer).factors();
    const auto normed = fastest_fp32_kernels()->norm;
    for_each_image([&](std::int64_t i) {
      at::parallel_for(0, x.count, 32, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = i * x.step + begin * width_;
        normed(x.rows + first, end - begin, width_, factors, out.rows + first);
      });
    });
    return out;
  }
  Rotation rotation(const VisionTransformerImpl&, std::int64_t block, const Value&) {
    return &engine_.blocks_[static_cast<std::size_t>(block)];
  }
  Value block_part(std::size_t part, const Value& x, Rotation block) {
    in_blocks_ = true;
    part == 0 ? engine_.add_attention(*block, images_, x.rows, work_)
              : engine_.add_mlp(*block, images_, x.rows, work_);
    return x;
  }
  void kept(const Value& x) { copy(x, kept_, x.count * width_); }

  Value tokens(const Value& x, std::int64_t from, std::int64_t to) {
    return {x.rows + from * width_, to - from, x.step};
  }
  Value vector(const Value& x) { return append(x); }
  Value mean(const Value& x, std::int64_t from, std::int64_t to) {
    const Value mean = next(1);
    for_each_image([&](std::int64_t i) {
      const float* const rows = x.rows + i * x.step;
      float* const out = mean.rows + i * mean.step;
      std::fill_n(out, width_, 0.0f);
      for (std::int64_t row = from; row < to; ++row)
        for (std::int64_t c = 0; c < width_; ++c) out[c] += rows[row * width_ + c];
      for (std::int64_t c = 0; c < width_; ++c) out[c] /= static_cast<float>(to - from);
    });
    return mean;
  }
  Value attention_pool(const Value& seen) { return append(seen); }  // of the whole batch later
  Value joined(const std::vector<Value>& values) {
    Value all{nullptr, 0, features_};
    for (const Value& one : values) {
      const Value there = one.rows >= result_ && one.rows < end_ ? one : append(one);
      if (!all.rows) all.rows = there.rows;
      all.count += there.count;
    }
    return all;
  }
  Value flattened(const Value& x, std::int64_t) { return x; }

 private:
  template <class Body>
  void for_each_image(Body body) const {
    for (std::int64_t i = 0; i < images_; ++i) body(i);
  }
  void copy(const Value& x, float* to, std::int64_t step) const {
    for_each_image(
        [&](std::int64_t i) { std::copy_n(x.rows + i * x.step, x.count * width_, to + i * step); });
  }
  // The result's next rows.
  Value next(std::int64_t count) {
    const Value rows{end_, count, features_};
    end_ += count * width_;
    return rows;
  }
  Value append(const Value& x) {
    const Value out = next(x.count);
    copy(x, out.rows, out.step);
    return out;
  }

  const Engine& engine_;
  Workspace& work_;
  std::int64_t images_;
  float* x_;  // [images, tokens, width], what the blocks add to
  std::int64_t width_, all_;
  float *result_, *end_;
  std::int64_t features_;
  float* kept_;
  bool in_blocks_ = false;
};

std::int64_t Engine::floats_of(Pooling pooling) const {
  if (pooling == Pooling::kMap)
    return (architecture_.pool_prefix ? tokens_ : grid_.patches()) * architecture_.width;
  const std::int64_t features = pooled_features(pooling, architecture_, grid_.patches());
  return pooling == Pooling::kTime ? grid_.steps * features : features;
}

torch::Tensor Engine::forward(const torch::Tensor& images, const FeatureOptions& options,
                              torch::Tensor* kept) {
  const std::int64_t batch = images.size(0), threads = at::get_num_threads();
  const std::int64_t pixels = images.numel() / std::max<std::int64_t>(batch, 1);
  const auto layers = static_cast<std::int64_t>(layers_of(options, architecture_).size());
  const std::int64_t floats = layers * floats_of(options.pooling);
  torch::Tensor features = torch::empty({batch, floats});
  float* const in = images.data_ptr<float>();
  float* const out = features.data_ptr<float>();
  const std::int64_t whole = one_by_one_ ? 0 : batch / threads * threads;
  for (auto i = static_cast<std::int64_t>(workspaces_.size()); i < (one_by_one_ ? 1 : threads); ++i)
    workspaces_.push_back(std::make_unique<Workspace>(*this));
  auto& scratches = workspaces_[0]->attention;  // for images that all threads share
  while (scratches.size() < static_cast<std::size_t>(threads))
    scratches.emplace_back(kernels_, tokens_, architecture_.width / architecture_.heads);
  FeatureOptions taken = options;
  float* cut = nullptr;
  if (!kept) taken.cut = 0;
  if (kept && options.cut > 0) {
    *kept = torch::empty({batch, tokens_, architecture_.width});
    cut = kept->data_ptr<float>();
  }
  const auto run = [&](std::int64_t first, std::int64_t end, std::int64_t thread) {
    Pass pass(*this, *workspaces_[static_cast<std::size_t>(thread)], end - first,
              out + first * floats, floats,
              cut ? cut + first * tokens_ * architecture_.width : nullptr);
    model_->features(pass, {in + first * pixels, 3 * image_size_.height, pixels}, taken);
  };

  const std::int64_t runs = (whole / threads + images_together_ - 1) / images_together_ * threads;
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, std::min(threads, whole), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      for (std::int64_t i; (i = next++) < runs;)
        run(whole * i / runs, whole * (i + 1) / runs, thread);
  });
  for (std::int64_t first = whole; first < batch; first += images_together_)
    run(first, std::min(first + images_together_, batch), 0);
  if (options.pooling != Pooling::kMap) return features;
  const std::int64_t width = architecture_.width;
  TorchOperations ops;
  return model_->attn_pool->forward(ops, features.view({batch, floats / width, width})).flatten(1);
}

}  // namespace coldframe::vit::cpu
