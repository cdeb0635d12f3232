#include "train_temporal/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "extract/vit/vit.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::plan {

namespace {

// Names and shapes without memory.
class ShapesOnly : public vit::WeightSource {
 public:
  explicit ShapesOnly(const tune::ChainShape& shape) : shape_(shape) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef sizes) override {
    torch::Tensor tensor = torch::empty(sizes, torch::kMeta);
    found_.all += static_cast<std::uint64_t>(tensor.numel());
    found_.trained += static_cast<std::uint64_t>(tune::trained_values(shape_, name, sizes));
    return tensor;
  }
  ParameterCount found() const { return found_; }

 private:
  const tune::ChainShape& shape_;
  ParameterCount found_;
};

}  // namespace

ParameterCount count_parameters(const tune::ChainShape& shape) {
  ShapesOnly shapes(shape);
  vit::VisionTransformer model(vit::Scope(shapes), shape.architecture, shape.image_size,
                               shape.projected);
  return shapes.found();
}

namespace {

using tune::ChainShape;
using tune::Strategy;
using tune::Way;

// The way of a row, of so many exams in place of the query's.
Way way_of(const Row& row, const Query& query, std::int64_t exams) {
  Way way = row.way;
  const std::int64_t frames = exams * query.frames;
  if (way.kept * way.chunk >= query.all_frames()) way.kept = frames;  // all chunks
  if (way.chunk >= query.all_frames()) {
    way.chunk = frames;
    // An optimal schedule's budget grows with the frames.
    way.budget = static_cast<std::uint64_t>(double(way.budget) * double(frames) /
                                            double(query.all_frames()) * 1.01) +
                 (16 << 20);
  }
  way.chunk = std::min(way.chunk, frames);
  return way;
}

MostExams most_exams(const Query& query, const PartCosts& part, const Row& row) {
  std::map<std::int64_t, std::uint64_t> known;
  const auto bytes_of = [&](std::int64_t exams) {
    const auto [place, is_new] = known.try_emplace(exams);
    if (!is_new) return place->second;
    const std::int64_t at_once = row.exams < query.exams ? std::min(row.exams, exams) : exams;
    const Way way = row.exams < query.exams ? row.way : way_of(row, query, exams);
    return place->second = part.bytes(way, part.use(way, at_once).peak, exams, at_once).total();
  };
  MostExams most;
  for (std::size_t card = 0; card < std::size(kCards); ++card) {
    const std::uint64_t memory = static_cast<std::uint64_t>(kCards[card]) * kGiB;
    std::int64_t low = 0, high = 1;
    while (high <= kMaxExams && bytes_of(high) <= memory) low = high, high *= 2;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (bytes_of(middle) <= memory ? low : high) = middle;
    }
    most[card] = std::min(low, kMaxExams);
  }
  return most;
}

// Of a frame in a block's matrix products, forward.
double block_operations(const vit::Architecture& vit, std::int64_t tokens) {
  const auto width = double(vit.width), hidden = double(vit.mlp_hidden);
  return 2 * double(tokens) * width * (4 * width + (vit.gated_mlp ? 3 : 2) * hidden);
}

}  // namespace

std::shared_ptr<const tune::ChainCosts> Machine::costs(const Query& query, const Trained& trained) {
  auto& found = costs_[{query.half, trained.blocks, trained.lora_rank}];
  if (!found)
    found = std::make_shared<tune::ChainCosts>(
        tune::measure_costs(shape_of(query, trained), device_, steps_[query.half]));
  return found;
}

double Machine::speed(const Query& query) {
  const Trained all{query.architecture.depth, 0};
  const tune::ChainCosts& of_all = *costs(query, all);
  const tune::MeasuredStep& block = of_all.steps.at(of_all.kinds.at(1)).rbegin()->second;
  return block_operations(query.architecture, shape_of(query, all).tokens()) / block.seconds.each;
}

std::string name_of(const Trained& trained, const Query& query) {
  if (trained.blocks == 0) return "cached";
  const bool all = trained.blocks == query.architecture.depth;
  const std::string blocks = all                   ? "all blocks"
                             : trained.blocks == 1 ? "last block"
                                                   : concat("last ", trained.blocks, " blocks");
  if (trained.lora_rank > 0) return concat("LoRA ", trained.lora_rank, ", ", blocks);
  return all ? "end to end" : blocks;
}

// An upper bound, in numbers of which none overflows.
void check_countable(const Query& query) {
  const vit::Architecture& vit = query.architecture;
  const ChainShape shape = shape_of(query, {});
  const double tokens = double(shape.tokens()), hidden = double(query.hidden);
  const double block = tokens * double(40 * vit.width + 20 * vit.mlp_hidden) +
                       8 * double(vit.heads) * tokens * tokens;
  const double temporal = 40 * (hidden + double(shape.feature_count())) * double(query.layers);
  const double frames = double(query.exams) * double(query.frames);
  const double bytes =
      4 * (frames * (block * double(vit.depth + 1) + temporal) +
           100 * hidden * (hidden + double(shape.feature_count())) * double(query.layers));
  constexpr double kMost = 0x1p60;
  if (bytes > kMost)
    throw ConfigError(concat("--exams ", query.exams, ", --frames ", query.frames, " of ",
                             query.image_size, ", --hidden ", query.hidden, " and --layers ",
                             query.layers, " take up to ", fixed(bytes / kMost, 0),
                             " EiB in a step; expected less than 1 EiB; lower the largest"));
}

std::string options_of(const Trained& trained, const Query& query) {
  if (trained.blocks == 0) return "train without --tune: on cached features";
  return concat("--tune-blocks ", trained.blocks,
                trained.lora_rank > 0 ? concat(" --lora ", trained.lora_rank) : "", ": ",
                name_of(trained, query));
}

ChainShape shape_of(const Query& query, const Trained& trained) {
  ChainShape shape;
  shape.architecture = query.architecture;
  shape.image_size = query.image_size;
  shape.features = query.features;
  shape.blocks = trained.blocks;
  shape.lora_rank = trained.lora_rank;
  shape.cut = shape.first_block();
  shape.dropout = query.dropout;
  if (query.half) shape.precision = torch::kBFloat16;
  return shape;
}

std::vector<Trained> trained_parts(const Query& query) {
  const std::int64_t depth = query.architecture.depth;
  std::vector<Trained> parts{{}};
  for (const std::int64_t blocks : std::set<std::int64_t>{1, 2, 4, depth / 2})
    if (blocks > 0 && blocks < depth) parts.push_back({blocks, 0});
  parts.push_back({depth, query.lora_rank});
  parts.push_back({depth, 0});
  return parts;
}

Row plan_row(const Query& query, const Trained& trained, const Way& way) {
  return PartCosts(query, trained).row(way);
}

std::vector<Row> plan_rows(const Query& query) {
  std::vector<Row> rows;
  const std::int64_t frames = query.all_frames();
  for (const Trained& trained : trained_parts(query)) {
    const PartCosts part(query, trained);
    if (trained.blocks == 0) {
      rows.push_back(part.row({}));
      continue;
    }
    const tune::StepTask task = part.task(query.exams);
    for (const Strategy strategy : {Strategy::kNone, Strategy::kCheap})
      rows.push_back(part.row({strategy, frames, 1, 0}));
    const std::uint64_t whole = tune::use_of({Strategy::kNone, frames, 1, 0}, task).peak;
    for (const std::uint64_t share : kShares) {
      const std::vector<Row> within = part.rows_within(whole / share);
      if (!within.empty()) rows.emplace_back(within.front()).share = share;
    }
    const std::int64_t least = query.coupled ? query.exams : 1;
    if (least < query.exams)
      rows.push_back(part.row({Strategy::kCheap, query.frames, 1, 0}, least));
    if (least * query.frames > 1) rows.push_back(part.row({Strategy::kCheap, 1, 0, 0}, least));
  }
  return rows;
}

std::vector<Row> rows_within(const Query& query, const Trained& trained, std::uint64_t memory) {
  const PartCosts part(query, trained);
  std::vector<Row> rows;
  if (trained.blocks == 0) {
    rows.push_back(part.row({}));
  } else {
    const Bytes none = part.bytes({}, 0, query.exams, 0);
    const std::uint64_t beside = none.weights + none.gradients + none.optimizer + none.inputs;
    const double usable = part.memory_before_device(memory) - double(beside);
    if (usable > 0) rows = part.rows_within(static_cast<std::uint64_t>(usable));
  }
  std::erase_if(rows, [&](const Row& row) { return row.bytes.total() > memory; });
  return rows;
}

std::vector<MostExams> most_exams(const Query& query, const std::vector<Row>& rows) {
  std::vector<MostExams> most;
  std::optional<PartCosts> part;
  for (const Row& row : rows) {
    if (!part || part->trained() != row.trained) part.emplace(query, row.trained);
    most.push_back(most_exams(query, *part, row));
  }
  return most;
}

std::vector<Change> changes(const Query& query, const Trained& trained, std::uint64_t memory) {
  std::vector<Change> found;
  const auto add = [&](const std::string& what, const Query& other, const Trained& part) {
    const std::vector<Row> rows = rows_within(other, part, memory);
    if (!rows.empty()) found.push_back({what, rows.front()});
    return !rows.empty();
  };
  const bool fits = add("another schedule, which train --tune finds by itself", query, trained);
  if (!query.half) {
    Query half = query;
    half.half = true;
    add("--amp bf16: matrix products in half the bytes", half, trained);
  }
  for (std::int64_t exams = query.exams / 2; !fits && exams >= 1; exams /= 2) {
    Query fewer = query;
    fewer.exams = exams;
    if (!add(concat("--batch ", exams, ": steps of fewer exams"), fewer, trained)) continue;
    found.back().row.seconds *= double(query.exams) / double(exams);  // more steps in an epoch
    break;
  }
  std::vector<Trained> parts = trained_parts(query);
  std::ranges::reverse(parts);
  if (trained.lora_rank == 0 && trained.blocks < query.architecture.depth)
    parts.insert(parts.begin(), {trained.blocks, query.lora_rank});
  for (const Trained& part : parts) {
    const bool less =
        part.blocks < trained.blocks ||
        (part.blocks == trained.blocks && part.lora_rank > 0 && trained.lora_rank == 0);
    if (!less) continue;
    add(options_of(part, query), query, part);
  }
  return found;
}

namespace {

using tune::Strategy;
using tune::Way;

constexpr std::uint64_t kFloat = 4;
// CUDA's context and kernels take this on common cards; drivers differ.
constexpr std::uint64_t kContext = 500ull << 20;
// Blocks that the caching allocator holds and cannot use.
constexpr double kFragments = 0.03;

std::uint64_t count(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

temporal::ModelConfig temporal_model(const Query& query, std::uint64_t dimension) {
  temporal::ModelConfig config;
  config.dimension = static_cast<std::int64_t>(dimension);
  config.outputs = query.outputs;
  config.hidden = query.hidden;
  config.layers = query.layers;
  config.bidirectional = query.bidirectional;
  set_model(config, query.temporal);
  config.time = config.architecture->ordered;
  return config;
}

// Counts weights, gradients, and what goes with each trained parameter.
Bytes parameter_bytes(const Query& query, std::uint64_t all, std::uint64_t trained) {
  Bytes bytes;
  bytes.weights = kFloat * all;
  bytes.gradients = kFloat * trained;
  bytes.optimizer = kFloat * trained * (count(query.moments) + 2);  // decay, and the best so far
  return bytes;
}

void add_device(const Query& query, Bytes& bytes) {
  if (!query.cuda) return;
  bytes.allocator =
      static_cast<std::uint64_t>(kFragments * double(bytes.total())) + cuda_training_workspaces();
  bytes.context = kContext;
}

std::string schedule_name(const Way& way, std::int64_t frames, std::int64_t exams) {
  std::string name = word_for(tune::kStrategies, way.strategy);
  if (way.strategy == Strategy::kOptimal) name += concat(" (", human_bytes(way.budget), ")");
  if (exams > 0) name += concat(", ", plural(count(exams), "exam"), " at a time");
  if (way.chunk < frames) name += concat(", ", plural(count(way.chunk), "frame"), " at a time");
  if (way.chunk < frames && way.kept > 0) name += concat(", ", way.kept, " kept");
  return name;
}

}  // namespace

PartCosts::PartCosts(const Query& query, const Trained& trained)
    : query_(query),
      trained_(trained),
      shape_(shape_of(query, trained)),
      config_(temporal_model(query, count(shape_.feature_count()))),
      temporal_(config_),
      parameters_(static_cast<std::uint64_t>(temporal_.parameters())) {
  if (is_cached()) return;
  vit_ = count_parameters(shape_);
  costs_ = query.machine->costs(query, trained);
  task_ = tune::step_task(*costs_, tune::chunk_uses(costs_), query.all_frames());
}

tune::StepTask PartCosts::task(std::int64_t exams) const {
  tune::StepTask task = task_;
  task.frames = exams * query_.frames;
  task.head = temporal_bytes(exams);
  return task;
}

Bytes PartCosts::bytes(const Way& way, std::uint64_t peak, std::int64_t exams,
                       std::int64_t at_once) const {
  const std::uint64_t fixed = count(at_once * query_.frames) * task_.fixed;
  Bytes bytes =
      parameter_bytes(query_, vit_.all + vit_.trained + parameters_, vit_.trained + parameters_);
  bytes.inputs = count(exams * query_.frames) * frame_bytes() + fixed;
  bytes.temporal = temporal_bytes(at_once);
  bytes.activations = peak - fixed;
  if (shape_.architecture.relative_positions && trained_.lora_rank == 0)
    bytes.attention = count(way.chunk) * shape_.attention_bytes() * count(trained_.blocks);
  add_device(query_, bytes);
  return bytes;
}

double PartCosts::memory_before_device(std::uint64_t memory) const {
  if (!query_.cuda) return double(memory);
  const double taken = double(kContext + cuda_training_workspaces());
  return std::ceil((double(memory) - taken + 1) / (1 + kFragments)) - 1;
}

Row PartCosts::row(const Way& way, const tune::Use& use, std::int64_t at_once) const {
  Row row;
  row.trained = trained_;
  row.way = way;
  row.exams = at_once;
  row.schedule = is_cached() ? "-"
                             : schedule_name(way, at_once * query_.frames,
                                             at_once < query_.exams ? at_once : 0);
  row.trained_parameters = vit_.trained + parameters_;
  row.bytes = bytes(way, use.peak, query_.exams, at_once);
  row.seconds =
      use.seconds * double(query_.exams) / double(at_once) +
      6.0 * double(parameters_) * double(query_.all_frames()) / query_.machine->speed(query_);
  return row;
}

std::vector<Row> PartCosts::rows_within(std::uint64_t budget) const {
  const auto task_of = [this](std::int64_t exams) { return task(exams); };
  const std::int64_t at_once =
      query_.coupled ? query_.exams
                     : tune::exams_that_fit(query_.exams, budget, Strategy::kCheap, task_of);
  std::vector<Row> rows;
  for (const tune::RankedSchedule& each : tune::rank_schedules(task(at_once), budget))
    if (each.fits) rows.push_back(row(each.way, each.use, at_once));
  return rows;
}

std::uint64_t PartCosts::frame_bytes() const {
  if (is_cached()) return kFloat * count(shape_.feature_count());
  return shape_.cut == 0 ? count(3 * shape_.image_size.pixels()) : shape_.token_bytes() / 2;
}
std::uint64_t PartCosts::temporal_bytes(std::int64_t exams) const {
  const double n = double(exams * query_.frames), b = double(exams);
  const bool fused = is_cached() && !query_.cuda && !query_.half && config_.has_kernels();
  return kFloat * static_cast<std::uint64_t>(
                      fused ? temporal_.forward(n, b) + temporal_.backward(n, b)
                            : temporal_.by_autograd(n, b, double(query_.frames), true));
}

}  // namespace coldframe::plan
