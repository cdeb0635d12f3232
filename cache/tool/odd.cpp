#include "cache/tool/odd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/format/exam.h"
#include "cache/tool/exams.h"
#include "cache/tool/statistics.h"
#include "common/charts/svg.h"
#include "common/files/fingerprint.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

// Gathers the reasons for which exams are odd. Numbers are judged by the modified z-score (Iglewicz
// and Hoaglin, "How to detect and handle outliers", 1993): 0.6745 · (x − median) / MAD, and, where
// half of the values are equal, (x − median) / (1.2533 · mean absolute deviation).

// The kinds that make an exam an outlier of the map.
inline constexpr const char *kOddNorm = "norm", *kFarAway = "distance from the rest";

class OddityFinder {
 public:
  explicit OddityFinder(const CacheReader& cache) : cache_(cache) {}

  // `kind`: what the reasons of many exams have in common, "repeated frames".
  void note(const std::string& kind, std::size_t exam, std::string text, double strength = 1);

  // How a number of each exam (NaN: none) is judged.
  struct Measure {
    std::string kind;
    bool ratio = true;      // compare ratios, of numbers above 0; else differences
    double min_factor = 1;  // of ratios: one that is nearer to 1 is never odd
    bool only_high = false;
    double least = -std::numeric_limits<double>::infinity();  // a number below it is never odd
  };
  // In words: the exam, its number and the median of all.
  using Words = std::function<std::string(std::size_t exam, double value, double usual)>;
  void measure(const Measure& measure, const std::vector<double>& values, const Words& words);

  // Sets oddness, reasons and common.
  void finish(Oddities& oddities) const;
  bool has(const std::string& kind, std::size_t exam) const;
  bool is_outlier(std::size_t exam) const;

 private:
  struct Reason {
    std::string text;
    double strength;
  };
  bool is_common(const std::string& kind) const;

  const CacheReader& cache_;
  std::vector<std::string> kinds_;  // in order of appearance
  std::map<std::string, std::map<std::size_t, std::vector<Reason>>> found_;
};

void find_odd_features(const Examined& examined, OddityFinder& finder, Oddities& oddities);
void find_odd_neighbours(const Examined& examined, OddityFinder& finder);
void find_odd_sequences(const Examined& examined, OddityFinder& finder);
void find_odd_columns(const Examined& examined, OddityFinder& finder);

// "frame 3", "frames 3, 5 and 7", "12 frames (3, 4, 5, …)"
std::string name_frames(const std::vector<std::size_t>& frames);

namespace {

// Frames that can be compared, with their norms.
struct Usable {
  std::vector<std::size_t> frames;
  std::vector<double> norms;
};

void compare_norms(const Usable& usable, ExamMetrics& figures) {
  figures.norm = median(usable.norms);
  for (std::size_t i = 0; i < usable.frames.size(); ++i) {
    const double ratio = usable.norms[i] / figures.norm, factor = std::max(ratio, 1 / ratio);
    if (factor <= figures.norm_factor) continue;
    figures.norm_factor = factor;
    figures.norm_frame = usable.frames[i];
  }
}

void compare_directions(const Usable& usable, std::span<const float> features,
                        std::size_t dimension, ExamMetrics& figures) {
  if (usable.frames.size() < 3) return;
  std::vector<float> sum(dimension), others(dimension);
  for (const std::size_t frame : usable.frames)
    for (std::size_t d = 0; d < dimension; ++d) sum[d] += features[frame * dimension + d];
  for (const std::size_t frame : usable.frames) {
    const auto row = features.subspan(frame * dimension, dimension);
    for (std::size_t d = 0; d < dimension; ++d) others[d] = sum[d] - row[d];
    const double strangeness = 1 - cosine(row, others);
    if (strangeness <= figures.strangeness) continue;
    figures.strangeness = strangeness;
    figures.strange_frame = frame;
  }
}

}  // namespace

ExamMetrics figures_of(const ExamInfo& exam, std::span<const float> features,
                       std::size_t dimension) {
  ExamMetrics figures;
  Usable usable;
  std::unordered_set<std::uint64_t> seen;
  const std::vector<double> norms = row_norms(features, dimension);
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    if (exam.present[t] == 0 || !std::isfinite(norms[t])) continue;
    if (norms[t] == 0) {
      figures.zero.push_back(t);
    } else {
      usable.frames.push_back(t);
      usable.norms.push_back(norms[t]);
      const auto row = features.subspan(t * dimension, dimension);
      if (!seen.insert(xxh3_64(std::as_bytes(row))).second) figures.repeated.push_back(t);
    }
  }
  if (usable.frames.empty()) return figures;
  figures.norm_factor = figures.strangeness = 0;
  compare_norms(usable, figures);
  compare_directions(usable, features, dimension, figures);
  return figures;
}

namespace {

constexpr std::size_t kMinExams = 10, kAlwaysOdd = 3, kFramesNamed = 4;
// Two in a billion of a normal distribution lie beyond it; real ones have heavier tails.
constexpr double kLimit = 6, kMaxStrength = 10;

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double value : values) logs.push_back(value > 0 ? std::log(value) : std::nan(""));
  return logs;
}

// [N] modified z-scores; NaN for NaN, 0 where too few numbers are known to judge by.
std::vector<double> modified_scores(const std::vector<double>& values) {
  std::vector<double> scores, deviations = finite_values(values);
  const bool enough = deviations.size() >= kMinExams;
  const double middle = enough ? median(deviations) : 0;
  double sum = 0;
  for (double& each : deviations) sum += each = std::abs(each - middle);
  const double mad = enough ? median(deviations) : 0;
  const double scale =
      mad > 0 ? mad / 0.6745 : 1.2533 * sum / static_cast<double>(deviations.size());
  for (const double value : values)
    scores.push_back(!std::isfinite(value) ? std::nan("")
                     : enough && scale > 0 ? (value - middle) / scale
                                           : 0);
  return scores;
}

}  // namespace

void OddityFinder::note(const std::string& kind, std::size_t exam, std::string text,
                        double strength) {
  if (!found_.contains(kind)) kinds_.push_back(kind);
  found_[kind][exam].push_back({std::move(text), strength});
}

void OddityFinder::measure(const Measure& measure, const std::vector<double>& values,
                           const Words& words) {
  const std::vector<double> known = finite_values(values);
  if (known.size() < kMinExams) return;
  const double usual = median(known);
  const auto others = static_cast<std::size_t>(
      std::ranges::count_if(known, [&](double value) { return value != usual; }));
  // If most exams share one value, such as 0, the others are compared with each other.
  if (2 * others < known.size() && others >= kMinExams) {
    std::vector<double> rest = values;
    std::ranges::replace(rest, usual, std::nan(""));
    return this->measure(measure, rest, [&](std::size_t exam, double value, double middle) {
      return concat(words(exam, value, middle), " where it is not ", html::number_text(usual));
    });
  }
  // A long tail of plain numbers above 0 is one that ratios do not show as one.
  const std::vector<double> of_ratios = modified_scores(logarithms(values));
  const std::vector<double> of_differences = measure.ratio ? of_ratios : modified_scores(values);
  for (std::size_t exam = 0; exam < values.size(); ++exam) {
    double score = std::abs(of_differences[exam]);
    if (!measure.ratio && std::isfinite(of_ratios[exam]) && usual > 0)
      score = std::min(score, std::abs(of_ratios[exam]));
    if (!(score > kLimit) || values[exam] < measure.least ||
        (measure.only_high && values[exam] < usual))
      continue;
    const double factor = std::max(values[exam] / usual, usual / values[exam]);
    if (measure.ratio && factor < measure.min_factor) continue;
    note(measure.kind, exam, words(exam, values[exam], usual),
         std::min(score / kLimit, kMaxStrength));
  }
}

// A reason is too common to be odd when all exams have it, or more than a tenth of them.
bool OddityFinder::is_common(const std::string& kind) const {
  const std::size_t count = cache_.exams().size(), having = found_.at(kind).size();
  return having == count || having > std::max(kAlwaysOdd, count / 10);
}

bool OddityFinder::is_outlier(std::size_t exam) const {
  return std::ranges::any_of(std::array{kOddNorm, kFarAway},
                             [&](const char* kind) { return has(kind, exam) && !is_common(kind); });
}

bool OddityFinder::has(const std::string& kind, std::size_t exam) const {
  const auto place = found_.find(kind);
  return place != found_.end() && place->second.contains(exam);
}

void OddityFinder::finish(Oddities& oddities) const {
  const std::size_t count = cache_.exams().size();
  oddities.oddness.assign(count, 0);
  oddities.reasons.assign(count, "");
  for (const std::string& kind : kinds_) {
    const auto& exams = found_.at(kind);
    if (is_common(kind)) {
      const std::string& example = cache_.exams()[exams.begin()->first].id;
      if (exams.size() < count)
        oddities.common.push_back(
            concat(kind, ": ", exams.size(), " of ", count, " exams, such as ", example));
      continue;
    }
    for (const auto& [exam, reasons] : exams)
      for (const Reason& reason : reasons) {
        oddities.oddness[exam] += reason.strength;
        oddities.reasons[exam] += (oddities.reasons[exam].empty() ? "" : "; ") + reason.text;
      }
  }
}

std::string name_frames(const std::vector<std::size_t>& frames) {
  std::vector<std::string> names;
  for (const std::size_t frame : frames) names.push_back(concat(frame));
  if (names.size() == 1) return "frame " + names[0];
  if (names.size() <= kFramesNamed) {
    const std::string last = names.back();
    names.pop_back();
    return concat("frames ", join(names, ", "), " and ", last);
  }
  names.resize(kFramesNamed - 1);
  return concat(frames.size(), " frames (", join(names, ", "), ", …)");
}

Oddities find_oddities(const Examined& examined) {
  OddityFinder finder(examined.cache);
  Oddities oddities;
  find_odd_features(examined, finder, oddities);
  find_odd_neighbours(examined, finder);
  find_odd_sequences(examined, finder);
  find_odd_columns(examined, finder);
  finder.finish(oddities);
  for (std::size_t exam = 0; exam < examined.cache.exams().size(); ++exam)
    oddities.outlier.push_back(finder.is_outlier(exam));
  return oddities;
}

// Exams that are odd by what the input says of them.

namespace {

// A column is one of categories when its values are at most this share of the exams; a value of
// fewer exams than the other share is a slip of the pen when another one is spelt much like it.
constexpr double kCategories = 0.1, kSlip = 0.005;
constexpr std::size_t kFewValues = 10;

// A column, or what every exam has one value of, as text; "" is no value.
struct Values {
  std::string name;
  std::vector<std::string> texts;             // of each exam
  std::map<std::string, std::size_t> counts;  // of values
  std::size_t known = 0;

  Values(std::string of, const CacheReader& cache,
         const std::function<std::string(const ExamInfo&)>& value)
      : name(std::move(of)) {
    for (const ExamInfo& exam : cache.exams()) {
      texts.push_back(trim(value(exam)));
      if (is_missing(texts.back())) texts.back().clear();
      if (texts.back().empty()) continue;
      ++counts[texts.back()];
      ++known;
    }
  }
};

void find_missing(const Values& values, OddityFinder& finder) {
  for (std::size_t i = 0; i < values.texts.size(); ++i)
    if (values.texts[i].empty()) finder.note("no " + values.name, i, "no " + values.name);
}

void find_rare(const Values& values, OddityFinder& finder) {
  const auto known = static_cast<double>(values.known);
  if (static_cast<double>(values.counts.size()) > kCategories * known) return;
  std::vector<std::string> frequent;
  for (const auto& [text, count] : values.counts)
    if (static_cast<double>(count) > kSlip * known && count > 1) frequent.push_back(text);
  for (std::size_t i = 0; i < values.texts.size(); ++i) {
    const std::string& text = values.texts[i];
    if (text.empty() || std::ranges::find(frequent, text) != frequent.end()) continue;
    const std::string meant = nearest(text, frequent);
    const std::size_t count = values.counts.at(text);
    if (count > 1 && meant.empty()) continue;
    finder.note("rare " + values.name, i,
                concat(values.name, " '", text, "' ",
                       count == 1 ? "of no other exam" : concat("of ", count, " exams"),
                       meant.empty() ? "" : concat("; '", meant, "' is frequent")));
  }
}

// Judges a column whose values are nearly all numbers.
void find_odd_numbers(const Values& values, OddityFinder& finder) {
  std::vector<double> numbers(values.texts.size(), std::nan(""));
  std::size_t parsed = 0, negative = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    parsed += parse_double(values.texts[i], numbers[i]);
    negative += numbers[i] < 0;
  }
  const bool slips =
      static_cast<double>(negative) <= std::max(1.0, kSlip * static_cast<double>(parsed));
  const auto as_text = [&](std::size_t i) { return concat(values.name, " ", values.texts[i]); };
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double number = 0;
    if (!values.texts[i].empty() && !parse_double(values.texts[i], number))
      finder.note("no number in " + values.name, i,
                  concat(values.name, " '", values.texts[i], "' is no number"));
    if (numbers[i] < 0 && slips)
      finder.note("negative " + values.name, i, as_text(i) + " is negative");
  }
  finder.measure({"column " + values.name, false}, numbers,
                 [&](std::size_t i, double, double usual) {
                   return concat(as_text(i), ", usually ", html::number_text(usual));
                 });
}

bool mostly_numbers(const Values& values) {
  double number = 0;
  std::size_t numbers = 0;
  for (const auto& [text, count] : values.counts) numbers += parse_double(text, number) ? count : 0;
  return values.counts.size() > kFewValues &&
         static_cast<double>(numbers) >= 0.95 * static_cast<double>(values.known);
}

}  // namespace

void find_odd_columns(const Examined& examined, OddityFinder& finder) {
  const CacheReader& cache = examined.cache;
  find_missing({"patient", cache, [](const ExamInfo& exam) { return exam.patient; }}, finder);
  find_rare({"kind of source", cache, [](const ExamInfo& exam) { return exam.source_kind; }},
            finder);
  find_rare({"frame size", cache,
             [](const ExamInfo& exam) {
               return exam.frame_width == 0 ? "" : concat(exam.frame_width, "×", exam.frame_height);
             }},
            finder);
  for (const std::string& name : cache.column_names()) {
    const Values values(name, cache,
                        [&](const ExamInfo& exam) { return column_value(exam, name); });
    find_missing(values, finder);
    mostly_numbers(values) ? find_odd_numbers(values, finder) : find_rare(values, finder);
  }
}

// Exams that are odd by their features alone.

namespace {

constexpr std::size_t kOfDistance = 5;
constexpr double kMinStrange = 0.01;  // 1 − cosine: frames of a still clip are all alike

// The Euclidean distance of vectors of lengths a and b with this cosine between them.
double distance_between(double a, double b, double cosine) {
  return std::sqrt(std::max(0.0, a * a + b * b - 2 * a * b * cosine));
}

std::vector<double> distances(const Examined& examined) {
  const ExamMeans& means = examined.means;
  std::vector<double> distance(examined.cache.exams().size(), std::nan(""));
  for (std::size_t row = 0; row < means.exams.size(); ++row) {
    const auto& nearest = examined.nearest[row];
    const std::size_t count = std::min(kOfDistance, nearest.size());
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      sum += distance_between(means.lengths[row], means.lengths[nearest[i].row], nearest[i].cosine);
    if (count > 0) distance[means.exams[row]] = sum / static_cast<double>(count);
  }
  return distance;
}

std::vector<double> of_each(const std::vector<ExamMetrics>& figures, double ExamMetrics::*member) {
  std::vector<double> values;
  for (const ExamMetrics& each : figures) values.push_back(each.*member);
  return values;
}

std::string compared(const std::string& what, double value, double usual) {
  return concat(what, " ", html::number_text(value), ", usually ", html::number_text(usual));
}

void find_faulty_frames(const Examined& examined, OddityFinder& finder) {
  for (std::size_t exam = 0; exam < examined.figures.size(); ++exam) {
    const ExamMetrics& figures = examined.figures[exam];
    const std::size_t present =
        static_cast<std::size_t>(std::ranges::count(examined.cache.exams()[exam].present, 1));
    if (!figures.zero.empty())
      finder.note("frames of zeros", exam, name_frames(figures.zero) + " with only zeros");
    if (figures.repeated.empty()) continue;
    const bool all = figures.repeated.size() + 1 == present;
    finder.note("repeated frames", exam,
                all ? concat("all ", present, " frames are the same")
                    : name_frames(figures.repeated) + " repeated from before");
  }
}

}  // namespace

void find_odd_features(const Examined& examined, OddityFinder& finder, Oddities& oddities) {
  const std::vector<ExamMetrics>& figures = examined.figures;
  finder.measure(
      {kOddNorm, true, 1.25}, of_each(figures, &ExamMetrics::norm),
      [](std::size_t, double value, double usual) { return compared("norm", value, usual); });
  oddities.distance = distances(examined);
  finder.measure({kFarAway, true, 1.5, true}, oddities.distance,
                 [](std::size_t, double value, double usual) {
                   return compared("distance from the nearest exams", value, usual);
                 });
  finder.measure({"norm of one frame", true, 1.5, true},
                 of_each(figures, &ExamMetrics::norm_factor),
                 [&](std::size_t exam, double value, double) {
                   return concat("norm of frame ", figures[exam].norm_frame, " differs ",
                                 html::number_text(value), "-fold from the others'");
                 });
  finder.measure({"one frame unlike the others", true, 2, true, kMinStrange},
                 of_each(figures, &ExamMetrics::strangeness),
                 [&](std::size_t exam, double value, double) {
                   return concat("frame ", figures[exam].strange_frame,
                                 " unlike the others (cosine ", fixed(1 - value, 3), ")");
                 });
  find_faulty_frames(examined, finder);
}

// Exams whose nearest ones, by the cosine of mean features, are not those that one would expect.

namespace {

constexpr double kAlike = 0.999;
// An exam whose neighbours have another label or patient is odd only where this share of
// neighbours has the same.
constexpr double kRegular = 0.8;

using Keys = std::vector<std::string>;  // of each row of the means; "": unknown

struct Share {
  double of = 0, all = 0;
  double share() const { return all > 0 ? of / all : 0; }
};

Keys keys_of(const Examined& examined, const std::function<std::string(const ExamInfo&)>& key) {
  Keys keys;
  for (const std::size_t exam : examined.means.exams)
    keys.push_back(key(examined.cache.exams()[exam]));
  return keys;
}

std::size_t of_same_key(const Examined& examined, const Keys& keys, std::size_t row) {
  return static_cast<std::size_t>(std::ranges::count_if(
      examined.nearest[row],
      [&](const Neighbour& neighbour) { return keys[neighbour.row] == keys[row]; }));
}

// Neighbours share a label where those of the other exams with this label do.
void find_strange_labels(const Examined& examined, OddityFinder& finder) {
  if (examined.label.empty()) return;
  const Keys labels =
      keys_of(examined, [&](const ExamInfo& exam) { return column_value(exam, examined.label); });
  std::map<std::string, Share> shares;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    Share& share = shares[labels[row]];
    share.of += static_cast<double>(of_same_key(examined, labels, row));
    share.all += static_cast<double>(examined.nearest[row].size());
  }
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row].empty() || examined.nearest[row].size() < kNeighbours ||
        shares[labels[row]].share() < kRegular || of_same_key(examined, labels, row) > 0)
      continue;
    finder.note(
        "neighbours of another label", examined.means.exams[row],
        concat("none of its ", kNeighbours, " nearest exams has its ", examined.label, " '",
               labels[row], "'; the nearest has '", labels[examined.nearest[row][0].row], "'"));
  }
}

// Exams of one patient lie together where they do for other patients, outliers apart.
void find_strange_patients(const Examined& examined, OddityFinder& finder) {
  Keys patients =
      keys_of(examined, [](const ExamInfo& exam) { return plain_spelling(exam.patient); });
  for (std::size_t row = 0; row < patients.size(); ++row)
    if (finder.is_outlier(examined.means.exams[row])) patients[row].clear();
  std::map<std::string, std::size_t> exams;
  for (const std::string& patient : patients) ++exams[patient];
  Share near;
  std::vector<std::size_t> alone;
  for (std::size_t row = 0; row < patients.size(); ++row) {
    if (patients[row].empty() || exams[patients[row]] < 2) continue;
    near.all += 1;
    if (of_same_key(examined, patients, row) > 0)
      near.of += 1;
    else
      alone.push_back(row);
  }
  if (near.share() < kRegular) return;
  for (const std::size_t row : alone)
    finder.note(
        "neighbours of another patient", examined.means.exams[row],
        concat("none of its ", examined.nearest[row].size(),
               " nearest exams is of its patient, who has ", exams[patients[row]], " exams"));
}

void find_copies(const Examined& examined, OddityFinder& finder) {
  const std::vector<ExamInfo>& exams = examined.cache.exams();
  std::map<std::uint64_t, std::vector<std::size_t>> by_checksum;
  for (std::size_t exam = 0; exam < exams.size(); ++exam)
    by_checksum[examined.cache.checksums(exam)[0]].push_back(exam);
  for (const auto& [checksum, alike] : by_checksum)
    for (std::size_t i = 0; alike.size() > 1 && i < alike.size(); ++i)
      finder.note("features of another exam", alike[i],
                  concat("exactly the features of ", exams[alike[i == 0 ? 1 : 0]].id));
  for (std::size_t row = 0; row < examined.means.exams.size(); ++row) {
    if (examined.nearest[row].empty()) continue;
    const Neighbour nearest = examined.nearest[row][0];
    const std::size_t exam = examined.means.exams[row], other = examined.means.exams[nearest.row];
    const std::string &patient = exams[exam].patient, &of_other = exams[other].patient;
    if (nearest.cosine < kAlike || (!patient.empty() && spelt_alike(patient, of_other)) ||
        finder.has("features of another exam", exam))
      continue;
    const bool known = !patient.empty() && !of_other.empty();
    finder.note(
        "nearly the features of another exam", exam,
        concat("nearly the features of ", exams[other].id, known ? ", of another patient" : "",
               " (cosine ", fixed(nearest.cosine, 5), ")"));
  }
}

}  // namespace

void find_odd_neighbours(const Examined& examined, OddityFinder& finder) {
  find_copies(examined, finder);
  find_strange_labels(examined, finder);
  find_strange_patients(examined, finder);
}

// Exams that are odd by the number and the times of their frames.

namespace {

std::string duration(double seconds) {
  const TimeUnit unit = time_unit(std::abs(seconds));
  return concat(html::number_text(seconds / unit.seconds), unit.sign);
}

// What each exam's number of frames and times are.
struct Sequences {
  std::vector<double> frames, spans, typical_steps, gaps, starts;
};

void find_odd_times(const ExamInfo& exam, std::size_t index, OddityFinder& finder) {
  std::vector<std::size_t> unknown, falling, equal;
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    if (!std::isfinite(exam.time_s[t])) {
      unknown.push_back(t);
    } else if (t > 0 && exam.time_s[t] < exam.time_s[t - 1]) {
      falling.push_back(t);
    } else if (t > 0 && exam.time_s[t] == exam.time_s[t - 1]) {
      equal.push_back(t);
    }
  }
  if (!falling.empty())
    finder.note("falling times", index, name_frames(falling) + " earlier than the one before");
  if (!equal.empty())
    finder.note("equal times", index, name_frames(equal) + " at the time of the one before");
  if (!unknown.empty())
    finder.note("unknown times", index,
                unknown.size() == exam.frames() ? "times unknown"
                                                : "time unknown of " + name_frames(unknown));
}

void find_odd_frames(const ExamInfo& exam, std::size_t index, OddityFinder& finder) {
  if (exam.frames() == 1) finder.note("single frames", index, "a single frame");
  if (const std::size_t missing = missing_frames(exam); missing > 0)
    finder.note("missing frames", index, concat(missing, " of ", exam.frames(), " frames missing"));
}

void take(const ExamInfo& exam, Sequences& sequences) {
  const std::vector<double> steps = intervals(exam);
  sequences.frames.push_back(static_cast<double>(exam.frames()));
  sequences.spans.push_back(time_span(exam));
  sequences.starts.push_back(exam.start_time);
  sequences.typical_steps.push_back(steps.empty() ? std::nan("") : median(steps));
  sequences.gaps.push_back(steps.size() < 3
                               ? std::nan("")
                               : *std::ranges::max_element(steps) / sequences.typical_steps.back());
}

}  // namespace

void find_odd_sequences(const Examined& examined, OddityFinder& finder) {
  Sequences sequences;
  const std::vector<ExamInfo>& exams = examined.cache.exams();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    find_odd_frames(exams[i], i, finder);
    find_odd_times(exams[i], i, finder);
    take(exams[i], sequences);
  }
  const auto plain = [](const char* what) {
    return [what](std::size_t, double value, double usual) {
      return concat(what, " ", html::number_text(value), ", usually ", html::number_text(usual));
    };
  };
  const auto of_time = [](const char* what) {
    return [what](std::size_t, double value, double usual) {
      return concat(what, " ", duration(value), ", usually ", duration(usual));
    };
  };
  finder.measure({"number of frames", true, 1.5}, sequences.frames, plain("number of frames"));
  finder.measure({"time span", true, 1.5}, sequences.spans, of_time("time span"));
  finder.measure({"interval", true, 1.5}, sequences.typical_steps,
                 of_time("typical interval between frames"));
  finder.measure({"gap between frames", true, 3, true}, sequences.gaps,
                 [](std::size_t, double value, double) {
                   return concat("one interval is ", html::number_text(value),
                                 " times as long as the typical one");
                 });
  finder.measure({"date", false}, sequences.starts, [](std::size_t, double value, double usual) {
    return concat("begins ", duration(std::abs(value - usual)),
                  value < usual ? " before" : " after", " the median exam");
  });
}

}  // namespace coldframe::cache::tool
