#include "train_temporal/run/unlike_training.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "common/torch/safetensors.h"
#include "train_temporal/data/feature_source.h"

namespace coldframe::temporal {

namespace {

constexpr const char* kFormat = "coldframe.unlike.1";
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Principal components that are kept, at most a quarter of the exams; and the exams that they are
// found by, for more would not move so few.
constexpr std::int64_t kMaxAxes = 10, kExamsForAxes = 1024;
// What a cohort is like is known from so many exams; the means of all of them might fill the
// memory.
constexpr std::size_t kMaxExams = 1 << 15;
// Distances that differ by rounding alone are equal.
constexpr double kRounding = 1e-9;
constexpr std::size_t kNumbers = 1;  // the first trait that is a number of an exam
// Lengths, intervals and starts that do not vary are alike up to a twentieth.
constexpr double kMinPaceDeviation = 0.05;

torch::Tensor row_of(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

std::vector<std::size_t> evenly(const std::set<std::size_t>& used) {
  const std::vector<std::size_t> all(used.begin(), used.end());
  if (all.size() <= kMaxExams) return all;
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < kMaxExams; ++i) some.push_back(all[i * all.size() / kMaxExams]);
  return some;
}

// Mean and deviation of what is known, NaN where nothing is.
torch::Tensor pace_of(const std::vector<double>& values) {
  const torch::Tensor all = row_of(values);
  const torch::Tensor known = all.index({all.isfinite()});
  if (known.numel() == 0) return torch::full({2}, kUnknown, torch::kFloat64);
  const torch::Tensor deviation = (known - known.mean()).square().mean().sqrt();
  return torch::stack({known.mean(), deviation.clamp_min(kMinPaceDeviation)});
}

ExamTraits chosen(const ExamTraits& all, const std::vector<std::int64_t>& rows) {
  ExamTraits some;
  some.features = all.features.index_select(0, torch::tensor(rows, torch::kInt64));
  for (std::size_t t = kNumbers; t < all.numbers.size(); ++t)
    for (const std::int64_t row : rows)
      some.numbers[t].push_back(all.numbers[t][static_cast<std::size_t>(row)]);
  return some;
}

// The directions in which standardised exams z [n, D] vary most, [k, D], and how much, [k].
std::pair<torch::Tensor, torch::Tensor> principal_axes(torch::Tensor z) {
  if (z.size(0) > kExamsForAxes) {
    const torch::Tensor evenly = torch::arange(kExamsForAxes, torch::kInt64) * z.size(0);
    z = z.index_select(0, at::div(evenly, kExamsForAxes, "floor"));
  }
  const std::int64_t n = z.size(0), width = z.size(1);
  const std::int64_t k = std::min({kMaxAxes, n / 4, width - 1});
  const bool wide = width > n;  // then by products of exams (Turk and Pentland 1991)
  const torch::Tensor products = (wide ? z.mm(z.t()) : z.t().mm(z)).to(torch::kFloat64) / n;
  const auto [values, vectors] = at::linalg_eigh(products);  // rising
  const torch::Tensor variance = values.slice(0, values.size(0) - k).clamp_min(1e-6);
  torch::Tensor axes = vectors.slice(1, vectors.size(1) - k).t();  // [k, n or D]
  if (wide) axes = axes.mm(z.to(torch::kFloat64)) / (variance * n).sqrt().unsqueeze(1);
  return {axes.to(torch::kFloat32).contiguous(), variance};
}

}  // namespace

ExamTraits traits_of(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  ExamTraits traits;
  const std::int64_t D = dataset.cache->dimension();
  traits.features = torch::zeros({static_cast<std::int64_t>(exams.size()), D});
  float* out = traits.features.data_ptr<float>();
  std::vector<double> sum(static_cast<std::size_t>(D));
  const auto add_exam = [&](std::size_t exam, const torch::Tensor& frames) {
    const cache::ExamInfo& info = dataset.cache->exams()[exam];
    std::ranges::fill(sum, 0.0);
    const float* feature = frames.const_data_ptr<float>();
    for (std::int64_t t = 0; t < frames.size(0); ++t)  // of a stream that is not there it is NaN
      for (double& one : sum) one += std::isnan(*feature) ? 0.0 : double{*feature}, ++feature;
    double length = 0;
    for (const double value : sum) length += value * value;
    length = std::max(std::sqrt(length), std::numeric_limits<double>::min());  // all zero: stays
    for (const double one : sum) *out++ = static_cast<float>(one / length);
    const std::vector<float> clock = clock_descriptor(info, {});
    const auto add = [&](Trait trait, double value) {
      traits.numbers[static_cast<std::size_t>(trait)].push_back(value);
    };
    add(Trait::kLength, clock[kClockLogFrames]);
    add(Trait::kInterval, clock[kClockUntimed] > 0 ? kUnknown : double{clock[kClockLogInterval]});
    add(Trait::kStart,
        std::isfinite(info.elapsed_start) ? log_elapsed(info.elapsed_start) : kUnknown);
  };
  visit_exams(dataset, exams, add_exam);
  return traits;
}

UnlikeTraining::Moments UnlikeTraining::fit(const ExamTraits& exams) {
  Moments moments;
  const torch::Tensor& x = exams.features;
  const auto [variance, mean] = at::var_mean(x.to(torch::kFloat64), {0}, /*correction=*/0.0);
  const torch::Tensor deviation = variance.sqrt();
  const double floor = std::max(0.01 * deviation.mean().item<double>(), 1e-6);
  moments.mean = mean.to(torch::kFloat32);
  moments.deviation = deviation.clamp_min(floor).to(torch::kFloat32);
  const torch::Tensor z = (x - moments.mean) / moments.deviation;
  torch::Tensor largest;
  std::tie(moments.axes, largest) = principal_axes(z);
  const double rest = z.square().sum(1).mean().item<double>() - largest.sum().item<double>();
  const auto others = static_cast<double>(z.size(1) - largest.size(0));
  moments.variance =
      torch::cat({largest, torch::full({1}, std::max(rest / others, 1e-6), torch::kFloat64)});
  std::vector<torch::Tensor> paces;
  for (std::size_t t = kNumbers; t < exams.numbers.size(); ++t)
    paces.push_back(pace_of(exams.numbers[t]));
  moments.pace = torch::stack(paces);
  return moments;
}

std::vector<double> UnlikeTraining::distances(const Moments& moments, const ExamTraits& exams,
                                              Trait trait) {
  torch::Tensor distance;
  if (trait == Trait::kFeatures) {
    const torch::Tensor z =
        ((exams.features - moments.mean) / moments.deviation).to(torch::kFloat64);
    const torch::Tensor along = z.mm(moments.axes.to(torch::kFloat64).t()).square();  // [n, k]
    const std::int64_t k = along.size(1);
    const torch::Tensor beside = (z.square().sum(1) - along.sum(1)).clamp_min(0);
    distance = (along / moments.variance.narrow(0, 0, k)).sum(1) + beside / moments.variance[k];
    distance /= static_cast<double>(z.size(1));
  } else {
    const auto t = static_cast<std::size_t>(trait);
    const torch::Tensor pace = moments.pace[static_cast<std::int64_t>(t - kNumbers)];
    distance = ((row_of(exams.numbers[t]) - pace[0]) / pace[1]).abs();
  }
  return doubles(distance);
}

UnlikeTraining::UnlikeTraining(const Dataset& dataset, const std::vector<Split>& splits) {
  std::set<std::size_t> used;
  for (const Split& split : splits) {
    for (const auto* part : {&split.train, &split.validation, &split.test})
      used.insert(part->begin(), part->end());
  }
  const std::vector<std::size_t> exams = evenly(used);
  const ExamTraits all = traits_of(dataset, exams);
  moments_ = fit(all);
  for (const Split& split : splits) {
    if (split.repeat != splits.front().repeat) continue;
    std::vector<std::int64_t> others, test;
    for (std::size_t i = 0; i < exams.size(); ++i) {
      const bool held_out = std::ranges::binary_search(split.test, exams[i]);
      (held_out ? test : others).push_back(static_cast<std::int64_t>(i));
    }
    const Moments moments = fit(chosen(all, others));
    const ExamTraits held_out = chosen(all, test);
    for (std::size_t t = 0; t < held_out_.size(); ++t) {
      for (const double distance : distances(moments, held_out, static_cast<Trait>(t)))
        if (!std::isnan(distance)) held_out_[t].push_back(distance);
    }
  }
  for (auto& distances : held_out_) std::ranges::sort(distances);
}

std::vector<OodScore> UnlikeTraining::judge(const ExamTraits& exams, Trait trait) const {
  const std::vector<double>& known = held_out_[static_cast<std::size_t>(trait)];
  std::vector<OodScore> found;
  for (const double distance : distances(moments_, exams, trait)) {
    OodScore& exam = found.emplace_back(OodScore{distance, kUnknown, kUnknown, known.size()});
    if (known.empty() || std::isnan(distance)) continue;
    const auto as_far = known.end() - std::ranges::lower_bound(known, distance - kRounding);
    const auto farther = known.end() - std::ranges::upper_bound(known, distance + kRounding);
    const auto places = static_cast<double>(known.size() + 1);
    exam.rank = static_cast<double>(as_far + 1) / places;
    exam.middle_rank = static_cast<double>(as_far + farther + 1) / (2 * places);
  }
  return found;
}

std::vector<OodScore> UnlikeTraining::judge_inputs(const ExamTraits& exams,
                                                   const std::vector<Trait>& times) const {
  std::vector<OodScore> found = judge(exams, Trait::kFeatures);
  std::size_t judged = 1;
  for (const Trait trait : times) {
    const std::size_t known = held_out_[static_cast<std::size_t>(trait)].size();
    if (known == 0) continue;
    ++judged;
    const std::vector<OodScore> of_trait = judge(exams, trait);
    for (std::size_t i = 0; i < found.size(); ++i) {
      // A time that is unknown is as rare as any.
      const double rank =
          std::isnan(of_trait[i].rank) ? 1 / static_cast<double>(known + 1) : of_trait[i].rank;
      if (rank >= found[i].rank) continue;
      found[i].rank = rank;
      found[i].by = trait;
    }
  }
  for (OodScore& exam : found) exam.rank = std::min(static_cast<double>(judged) * exam.rank, 1.0);
  return found;
}

void write_unlike_training(const Dataset& dataset, const std::vector<Split>& splits,
                           const std::filesystem::path& file) {
  try {
    UnlikeTraining(dataset, splits).write(file);
  } catch (const std::exception& error) {
    const std::string why = error.what();  // LibTorch's goes on with where it was thrown
    log_warning(concat("the run will not know which exams are unlike its own: ",
                       why.substr(0, why.find('\n'))));
  }
}

void UnlikeTraining::write(const std::filesystem::path& file) const {
  StateDict tensors = {{"mean", moments_.mean},
                       {"deviation", moments_.deviation},
                       {"axes", moments_.axes},
                       {"variance", moments_.variance},
                       {"pace", moments_.pace}};
  for (std::size_t t = 0; t < held_out_.size(); ++t)
    tensors[concat("held_out.", kTraitNames[t])] = row_of(held_out_[t]);
  write_sealed_safetensors(file, tensors, {{"format", kFormat}});
}

std::optional<UnlikeTraining> UnlikeTraining::read(const std::filesystem::path& run,
                                                   std::int64_t dimension) {
  const std::filesystem::path path = run / kUnlikeFile;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const SafetensorsFile file = read_sealed_safetensors(path);
  const auto refuse = [&](const std::string& why) {
    throw DataError(concat("'", path.string(), "' ", why, "; train again, or remove the file"));
  };
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kFormat)
    refuse(concat("is not of the format '", kFormat, "'"));
  const auto take = [&](const std::string& name, torch::ScalarType type,
                        const std::vector<std::int64_t>& shape) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) refuse(concat("lacks the tensor '", name, "'"));
    const torch::Tensor& tensor = found->second;
    bool fits = tensor.scalar_type() == type && tensor.dim() == std::ssize(shape);
    for (std::size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i] < 0 || tensor.size(static_cast<std::int64_t>(i)) == shape[i];
    if (!fits)
      refuse(concat("has the tensor '", name, "' of shape ", shape_text(tensor.sizes()),
                    ", expected ", shape_text(shape), " (-1: any) for ",
                    plural(dimension, "feature")));
    return tensor;
  };
  UnlikeTraining unlike;
  Moments& moments = unlike.moments_;
  moments.mean = take("mean", torch::kFloat32, {dimension});
  moments.deviation = take("deviation", torch::kFloat32, {dimension});
  moments.axes = take("axes", torch::kFloat32, {-1, dimension});
  moments.variance = take("variance", torch::kFloat64, {moments.axes.size(0) + 1});
  constexpr auto kRows = static_cast<std::int64_t>(kTraitNames.size() - kNumbers);
  moments.pace = take("pace", torch::kFloat64, {kRows, 2});
  for (std::size_t t = 0; t < kTraitNames.size(); ++t)
    unlike.held_out_[t] = doubles(take(concat("held_out.", kTraitNames[t]), torch::kFloat64, {-1}));
  return unlike;
}

namespace {

// In the warning, by Trait; lengths decide nothing.
constexpr std::array<const char*, kTraitNames.size()> kTraitWords = {
    "features", "lengths", "intervals between frames", "starts after the zero"};

// The share of chance that so many of n exams or more are flagged, at the rate of held-out ones.
double chance_of(std::size_t flagged, std::size_t n) {
  if (flagged == 0) return 1;
  const boost::math::binomial distribution(static_cast<double>(n), kUnlikeRate);
  return cdf(complement(distribution, static_cast<double>(flagged) - 1));
}

}  // namespace

std::size_t count_flagged(const std::vector<OodScore>& exams) {
  return static_cast<std::size_t>(std::ranges::count_if(exams, &OodScore::flagged));
}

std::string warn_of_unlike(const std::vector<OodScore>& exams) {
  constexpr double kChance = 0.05 + 1e-9;
  if (exams.empty()) return {};
  const std::size_t held_out = exams.front().held_out;
  if (1 / static_cast<double>(held_out + 1) > kUnlikeRate) {
    return concat("the training held out ", plural(held_out, "exam"),
                  ", too few to tell exams unlike the training data, of which none is flagged; ",
                  "that takes at least ", std::round(1 / kUnlikeRate) - 1);
  }
  const std::size_t flagged = count_flagged(exams);
  if (flagged == 0 || chance_of(flagged, exams.size()) > kChance) return {};
  std::set<Trait> by;
  for (const OodScore& exam : exams)
    if (exam.flagged()) by.insert(exam.by);
  std::vector<std::string> what;
  for (const Trait trait : by) what.push_back(kTraitWords[static_cast<std::size_t>(trait)]);
  return concat(flagged, " of ", plural(exams.size(), "exam"), " unlike the training data: their ",
                join(what, " or "), " are as far from it as at most ", fixed(100 * kUnlikeRate, 0),
                " % of the run's held-out exams; nothing is known of how well the model does on "
                "these (another device, view, kind of image or unit of time?)");
}

std::vector<Trait> times_shown_to(const Ensemble& ensemble) {
  std::vector<Trait> times;
  if (ensemble.sees_times()) times.push_back(Trait::kInterval);
  if (ensemble.card().config.elapsed) times.push_back(Trait::kStart);
  return times;
}

std::vector<OodScore> judge_exams(const std::filesystem::path& run, const Dataset& dataset,
                                  const std::vector<std::size_t>& exams,
                                  const std::vector<Trait>& times) {
  const auto unlike = UnlikeTraining::read(run, dataset.cache->dimension());
  return unlike ? unlike->judge_inputs(traits_of(dataset, exams), times) : std::vector<OodScore>();
}

void add_unlike(PredictionTable& table, const std::vector<OodScore>& unlike) {
  if (unlike.empty()) return;
  PredictionTable::Column distance{"unlike_training", {}}, rank{"unlike_rank", {}};
  std::size_t n = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (i > 0 && table.rows[i].exam != table.rows[i - 1].exam) ++n;
    distance.values.push_back(unlike[n].distance);
    rank.values.push_back(unlike[n].rank);
  }
  table.more.push_back(std::move(distance));
  table.more.push_back(std::move(rank));
}

std::vector<CohortShift> cohort_shift(const UnlikeTraining& unlike, const ExamTraits& exams) {
  std::vector<CohortShift> shifts;
  for (std::size_t t = 0; t < kTraitNames.size(); ++t) {
    const std::vector<OodScore> found = unlike.judge(exams, static_cast<Trait>(t));
    if (!found.empty() && found.front().held_out == 0) continue;
    std::vector<double> ranks;
    for (const OodScore& exam : found) {
      if (!std::isnan(exam.rank)) ranks.push_back(exam.middle_rank);
    }
    std::ranges::sort(ranks);
    const std::size_t n = ranks.size();
    shifts.push_back({kTraitNames[t], n, count_flagged(found),
                      n == 0 ? std::numeric_limits<double>::quiet_NaN()
                             : (ranks[(n - 1) / 2] + ranks[n / 2]) / 2});
  }
  return shifts;
}

}  // namespace coldframe::temporal
