#include "train_temporal/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/device_memory.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/models/step_values.h"
#include "train_temporal/plan/parameters.h"

namespace coldframe::plan {
namespace {

using tune::ChainShape;
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

// The temporal model's step on [n, D] features.
std::uint64_t temporal_bytes(const Query& query, std::uint64_t dimension, bool cached) {
  const temporal::ModelConfig config = temporal_model(query, dimension);
  const temporal::StepValues values(config);
  const double n = double(query.all_frames()), b = double(query.exams);
  const bool fused = cached && !query.cuda && !query.half && config.has_kernels();
  return kFloat *
         static_cast<std::uint64_t>(fused ? values.forward(n, b) + values.backward(n, b)
                                          : values.by_autograd(n, b, double(query.frames), true));
}

std::uint64_t temporal_parameters(const Query& query, std::uint64_t dimension) {
  const temporal::StepValues values(temporal_model(query, dimension));
  return static_cast<std::uint64_t>(values.parameters());
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

// The most bytes to which add_device() adds no more than `memory` in all; less than 0: none.
double memory_before_device(const Query& query, std::uint64_t memory) {
  if (!query.cuda) return double(memory);
  const double taken = double(kContext + cuda_training_workspaces());
  return std::ceil((double(memory) - taken + 1) / (1 + kFragments)) - 1;
}

// The batch's rows of a cut: pixels, or tokens in float16.
std::uint64_t row_bytes(const ChainShape& shape) {
  return shape.cut == 0 ? count(3 * shape.image_size.pixels()) : shape.token_bytes() / 2;
}

std::string schedule_name(const Way& way, std::int64_t frames) {
  std::string name = word_for(tune::kStrategies, way.strategy);
  if (way.strategy == Strategy::kOptimal) name += concat(" (", human_bytes(way.budget), ")");
  if (way.chunk < frames) name += concat(", ", plural(count(way.chunk), "frame"), " at a time");
  if (way.chunk < frames && way.kept > 0) name += concat(", ", way.kept, " kept");
  return name;
}

Row cached_row(const Query& query) {
  const ChainShape shape = shape_of(query, {});
  const auto dimension = count(shape.feature_count());
  Row row;
  row.trained_parameters = temporal_parameters(query, dimension);
  row.bytes = parameter_bytes(query, row.trained_parameters, row.trained_parameters);
  row.bytes.inputs = kFloat * dimension * count(query.all_frames());
  row.bytes.temporal = temporal_bytes(query, dimension, true);
  row.schedule = "-";
  row.work = 6.0 * double(row.trained_parameters) * double(query.all_frames());
  add_device(query, row.bytes);
  return row;
}

tune::StepTask task_of(const Query& query, const Trained& trained) {
  const ChainShape shape = shape_of(query, trained);
  tune::StepTask task = tune::step_task(shape, query.all_frames());
  task.head = temporal_bytes(query, count(shape.feature_count()), false);
  return task;
}

// `vit` is what count_parameters() finds: the same for every way, and for any number of exams.
Row row_of(const Query& query, const Trained& trained, const ParameterCount& vit, const Way& way,
           const tune::Use& use, std::uint64_t fixed) {
  const ChainShape shape = shape_of(query, trained);
  const auto dimension = count(shape.feature_count());
  const std::uint64_t temporal = temporal_parameters(query, dimension);
  Row row;
  row.trained = trained;
  row.way = way;
  row.schedule = schedule_name(way, query.all_frames());
  row.trained_parameters = vit.trained + temporal;
  row.bytes = parameter_bytes(query, vit.all + temporal, row.trained_parameters);
  row.bytes.inputs = count(query.all_frames()) * row_bytes(shape) + fixed;
  row.bytes.temporal = temporal_bytes(query, dimension, false);
  row.bytes.activations = use.peak - fixed;
  if (shape.architecture.relative_positions && trained.lora_rank == 0)
    row.bytes.attention = count(way.chunk) * shape.attention_bytes() * count(trained.blocks);
  row.work = use.seconds + 6.0 * double(temporal) * double(query.all_frames());
  add_device(query, row.bytes);
  return row;
}

Row row_of(const Query& query, const Trained& trained, const ParameterCount& vit, const Way& way) {
  if (trained.blocks == 0) return cached_row(query);
  const tune::StepTask task = task_of(query, trained);
  return row_of(query, trained, vit, way, tune::use_of(way, task), task.fixed);
}

}  // namespace

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
  shape.half = query.half;
  shape.cuda = query.cuda;
  shape.threads = query.threads;
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
  return row_of(query, trained, count_parameters(shape_of(query, trained)), way);
}

std::vector<Row> plan_rows(const Query& query) {
  std::vector<Row> rows;
  const std::int64_t frames = query.all_frames();
  for (const Trained& trained : trained_parts(query)) {
    if (trained.blocks == 0) {
      rows.push_back(cached_row(query));
      continue;
    }
    const ParameterCount vit = count_parameters(shape_of(query, trained));
    const tune::StepTask task = task_of(query, trained);
    const auto add = [&](const Way& way, const tune::Use& use) -> Row& {
      return rows.emplace_back(row_of(query, trained, vit, way, use, task.fixed));
    };
    for (const Strategy strategy : {Strategy::kNone, Strategy::kCheap})
      add({strategy, frames, 1, 0}, tune::use_of({strategy, frames, 1, 0}, task));
    const std::uint64_t whole = tune::use_of({Strategy::kNone, frames, 1, 0}, task).peak;
    for (const std::uint64_t share : kShares) {
      const tune::ConsideredWay best = tune::consider_ways(task, whole / share).front();
      if (best.fits) add(best.way, best.use).share = share;
    }
    for (const std::int64_t chunk : {16, 1}) {
      const Way way{Strategy::kCheap, chunk, 0, 0};
      if (chunk < frames) add(way, tune::use_of(way, task));
    }
  }
  return rows;
}

std::vector<Row> rows_within(const Query& query, const Trained& trained, std::uint64_t memory) {
  std::vector<Row> rows;
  if (trained.blocks == 0) {
    if (Row row = cached_row(query); row.bytes.total() <= memory) rows.push_back(std::move(row));
    return rows;
  }
  const tune::StepTask task = task_of(query, trained);
  const ParameterCount vit = count_parameters(shape_of(query, trained));
  const Bytes none = row_of(query, trained, vit, {}, {task.fixed, 0}, task.fixed).bytes;
  const std::uint64_t beside = none.weights + none.gradients + none.optimizer + none.inputs;
  const double usable = memory_before_device(query, memory) - double(beside) + double(task.fixed);
  if (usable <= double(task.fixed)) return rows;
  for (const tune::ConsideredWay& each :
       tune::consider_ways(task, static_cast<std::uint64_t>(usable))) {
    if (!each.fits) break;
    Row row = row_of(query, trained, vit, each.way, each.use, task.fixed);
    if (row.bytes.total() <= memory) rows.push_back(std::move(row));
  }
  return rows;
}

std::int64_t most_exams(const Query& query, const Row& row, std::uint64_t memory) {
  const ParameterCount vit = count_parameters(shape_of(query, row.trained));
  const auto fits = [&](std::int64_t exams) {
    Query larger = query;
    larger.exams = exams;
    Way way = row.way;
    const std::int64_t frames = larger.all_frames();
    if (way.kept * way.chunk >= query.all_frames()) way.kept = frames;  // all chunks
    if (way.chunk >= query.all_frames()) {
      way.chunk = frames;
      // An optimal schedule's budget grows with the frames.
      way.budget = static_cast<std::uint64_t>(double(way.budget) * double(frames) /
                                              double(query.all_frames()) * 1.01) +
                   (16 << 20);
    }
    way.chunk = std::min(way.chunk, frames);
    return row_of(larger, row.trained, vit, way).bytes.total() <= memory;
  };
  std::int64_t low = 0, high = 1;
  while (high <= kMostExams && fits(high)) low = high, high *= 2;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return std::min(low, kMostExams);
}

std::vector<Change> changes(const Query& query, const Trained& trained, std::uint64_t memory) {
  std::vector<Change> found;
  const auto add = [&](const std::string& what, const Query& other, const Trained& part) {
    const std::vector<Row> rows = rows_within(other, part, memory);
    if (!rows.empty()) found.push_back({what, rows.front()});
    return !rows.empty();
  };
  add("the same by another schedule, which train --tune finds by itself", query, trained);
  if (!query.half) {
    Query half = query;
    half.half = true;
    add("--amp bf16: matrix products in half the bytes", half, trained);
  }
  for (std::int64_t exams = query.exams / 2; exams >= 1; exams /= 2) {
    Query fewer = query;
    fewer.exams = exams;
    if (!add(concat("--batch ", exams, ": steps of fewer exams"), fewer, trained)) continue;
    found.back().row.work *= double(query.exams) / double(exams);  // more steps in an epoch
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

}  // namespace coldframe::plan
