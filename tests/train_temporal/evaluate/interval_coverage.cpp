// interval_coverage [COHORTS [KIND [PATIENTS …]]]: how often the 95 % intervals of every figure,
// and of the difference between two models, hold the truth. COHORTS (100) are made of each number
// of PATIENTS (20, 40, 80, 160 and 500), with 1 to 5 exams each and 5 folds by patient; the truth
// is that of 300 000 patients. KIND: binary, perfect (nearly), classes, ordinal,
// number, times (to an event), or all.
//
// Prints, for each figure and size, the percentage of the intervals that hold the truth, and behind
// a slash the percentage of cohorts that have none, where there are any. Percentages outside of 92
// to 98 are marked: ! where chance among so many intervals does not explain it; ? where it may, and
// more cohorts tell; ~ above 98 where a figure is counted in patients and fewer than 5 of them are
// expected to contradict the better model. Such a figure is perfect in many cohorts, and the
// interval of a perfect one holds all truths near it: coverage then nears 100 %, as that of a share
// does at its ends (Brown, Cai and DasGupta 2001, Interval estimation for a binomial proportion,
// whose section 2 discusses the condition of textbooks that np and n(1 − p) be 5 or more). The
// calibration line, too, rests on the patients on the wrong side alone, and so does most of a Brier
// score or log loss: where fewer than 5 are expected, many cohorts lack the largest errors, and ~
// stands below 92 as well (error_coverage has more of these). Exit code 1 where any is marked with
// !.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include "common/cli/cli.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "tests/train_temporal/evaluate/coverage.h"
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/evaluate/intervals.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

constexpr std::size_t kFolds = 5;

// What a cohort is drawn from: the label moves the score by `skill`; noise is shared by the exams
// of a patient in part.
struct Kind {
  const char* name;
  std::size_t classes;
  Scale scale;
  double skill, skill_of_other;
  double rare;  // the share of class 1 of two
};
constexpr Kind kKinds[] = {
    {"binary", 2, Scale::kNominal, 1.5, 1.0, 0.4}, {"perfect", 2, Scale::kNominal, 3.0, 2.0, 0.4},
    {"classes", 3, Scale::kNominal, 1.5, 1.0, 0},  {"ordinal", 4, Scale::kOrdinal, 1.5, 1.0, 0},
    {"number", 1, Scale::kNumber, 1.5, 1.0, 0},    {"times", 3, Scale::kTime, 1.5, 1.0, 0}};
const std::vector<double> kHorizons = {0.3, 1.2};  // of times, whose median is about 0.7

struct Patient {
  int label = 0;
  double number = 0;
  double time = 0;             // to the event, or to being censored
  std::vector<double> effect;  // [2 models × classes] shared by the exams
};

Patient draw_patient(const Kind& kind, CounterRandom& random) {
  Patient patient;
  patient.number = normal(random);
  patient.label = kind.classes == 2
                      ? random.uniform() < kind.rare
                      : static_cast<int>(random.below(std::max<std::size_t>(kind.classes, 1)));
  if (kind.scale == Scale::kTime) {
    const auto wait = [&] { return -std::log(std::max(random.uniform(), 1e-300)); };
    const double event = wait() * std::exp(-1.5 * patient.number), censored = 3 * wait();
    patient.time = std::min(event, censored);
    patient.label = event <= censored;
  }
  for (std::size_t i = 0; i < 2 * kind.classes; ++i) patient.effect.push_back(0.7 * normal(random));
  return patient;
}

// Scores that are too sure of themselves by a factor of 1.3.
void add_exam(ScoredExams& exams, const Kind& kind, const Patient& patient, double skill,
              std::size_t of_model, const std::vector<double>& noise) {
  std::vector<double> z(kind.classes);
  for (std::size_t c = 0; c < kind.classes; ++c) {
    const double shared =
        0.8 * patient.effect[c] + 0.6 * patient.effect[of_model * kind.classes + c];
    z[c] = shared + 0.7 * noise[c];
    const double distance = static_cast<double>(c) - patient.label;
    if (kind.scale == Scale::kOrdinal) z[c] -= skill * distance * distance / 2;
    if (kind.scale == Scale::kNominal && distance == 0) z[c] += skill;
    z[c] *= 1.3;
  }
  exams.width = kind.classes;
  exams.scale = kind.scale;
  if (kind.scale == Scale::kNumber) {
    exams.predicted.push_back(skill * patient.number + z[0]);
    exams.number.push_back(skill * patient.number);
    exams.decision.push_back(0);
    exams.label.push_back(0);
    return;
  }
  if (kind.scale == Scale::kTime) {
    const double risk = skill * patient.number + z[0];
    exams.horizons = kHorizons;
    exams.predicted.push_back(risk);
    for (const double horizon : kHorizons)
      exams.predicted.push_back(std::exp(-horizon * std::exp(risk)));
    exams.number.push_back(patient.time);
    exams.decision.push_back(0);
    exams.label.push_back(patient.label);
    return;
  }
  const auto p = softmax(z, kind.classes);
  exams.predicted.insert(exams.predicted.end(), p.begin(), p.end());
  exams.label.push_back(patient.label);
  exams.decision.push_back(decide(p, kind.classes, 0.5).front());
}

struct Cohort {
  std::vector<FoldScores> main, other;
};

Cohort draw(const Kind& kind, std::size_t patients, std::size_t folds, std::uint64_t seed) {
  CounterRandom random({seed, patients});
  Cohort cohort;
  for (std::size_t f = 0; f < folds; ++f) {
    cohort.main.push_back({0, f, {}, {}});
    cohort.other.push_back({0, f, {}, {}});
  }
  std::map<int, std::size_t> of_class;  // folds are stratified
  for (std::size_t p = 0; p < patients; ++p) {
    const Patient patient = draw_patient(kind, random);
    const std::size_t fold = kind.classes > 1 ? of_class[patient.label]++ % folds : p % folds;
    const std::size_t exams = 1 + random.below(5);
    for (std::size_t e = 0; e < exams; ++e) {
      std::vector<double> noise(kind.classes);
      for (double& one : noise) one = normal(random);
      add_exam(cohort.main[fold].exams, kind, patient, kind.skill, 0, noise);
      add_exam(cohort.other[fold].exams, kind, patient, kind.skill_of_other, 1, noise);
      cohort.main[fold].patient.push_back(p);
      cohort.other[fold].patient.push_back(p);
    }
  }
  return cohort;
}

constexpr double kLeast = 0.92, kMost = 0.98;

// Intervals of one figure or difference, in cohorts of one size.
struct Shares {
  std::size_t covered = 0, bounded = 0, all = 0;
  double units = 0;  // of all cohorts together; see units_of()
  bool of_error = false;

  void add(const Estimate& estimate, double truth, std::size_t of_units) {
    ++all;
    units += static_cast<double>(of_units);
    if (!estimate.low.defined()) return;
    ++bounded;
    covered += estimate.low.value <= truth && truth <= estimate.high.value;
  }
  double share() const { return static_cast<double>(covered) / static_cast<double>(bounded); }

  // `wrong`: the share of units that contradict the figure, 0 where it is not counted in them.
  std::string mark(double wrong) const {
    if (bounded == 0 || (share() >= kLeast && share() <= kMost)) return "";
    constexpr double kFew = 5;
    const double expected = wrong * units / static_cast<double>(all);
    if ((share() > kMost || of_error) && wrong > 0 && expected < kFew) return "~";
    const double limit = share() < kLeast ? kLeast : kMost;
    // Were the limit the truth, 1 % of all counts would lie further beyond it.
    const double chance = 2.33 * std::sqrt(limit * (1 - limit) / static_cast<double>(bounded));
    return std::abs(share() - limit) > chance ? "!" : "?";
  }
  std::string text(double wrong) const {
    if (bounded == 0) return "none";
    const std::size_t unbounded = (100 * (all - bounded) + all / 2) / all;
    return concat(fixed(100 * share(), 1), mark(wrong),
                  all > bounded ? concat(" / ", unbounded) : "");
  }
};

bool is_error(Metric metric) {
  return metric->shape == Shape::kPositive;
}

// The share of patients, or of pairs, that speak against a figure that is counted in them.
double share_wrong(Metric metric, double value, double accuracy) {
  if (metric->labels == kNumberLabels) return 0;
  if (metric->shape == Shape::kShare) return 1 - value;
  if (metric->shape == Shape::kSigned) return (1 - value) / 2;
  const bool rests_on_wrong = metric->shape == Shape::kAnywhere || is_error(metric);
  return rests_on_wrong ? 1 - accuracy : 0;
}

// Of one kind: [metric][size], of the main model's figures and of the differences.
struct Coverage {
  std::vector<std::vector<Shares>> own, paired;
};

Coverage count(const Kind& kind, std::size_t cohorts, const std::vector<std::size_t>& sizes,
               const std::vector<MetricValue>& of_main, const std::vector<MetricValue>& of_other) {
  Coverage coverage;
  coverage.own.assign(of_main.size(), std::vector<Shares>(sizes.size()));
  coverage.paired = coverage.own;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    for (std::size_t i = 0; i < cohorts; ++i) {
      const Cohort cohort = draw(kind, sizes[s], kFolds, 1000 + i);
      const MetricTable main = leave_out_patients(cohort.main);
      const auto figures = summarize(main);
      const auto differences = paired_differences(main, leave_out_patients(cohort.other));
      for (std::size_t m = 0; m < of_main.size(); ++m) {
        const Aggregation taken =
            figures[m].by_fold ? Aggregation::kOverFolds : Aggregation::kPooled;
        const std::size_t units = units_of(main, m, taken);
        const double difference = of_main[m].value - of_other[m].value;
        coverage.own[m][s].of_error = is_error(figures[m].metric);
        coverage.own[m][s].add(figures[m].primary(), of_main[m].value, units);
        coverage.paired[m][s].add(differences[m].primary(), difference, units);
      }
    }
  }
  return coverage;
}

std::vector<std::string> heading(const Kind& kind, const std::vector<std::size_t>& sizes) {
  std::vector<std::string> row = {kind.name};
  for (const char* part : {"TRUTH", "DIFFERENCE"}) {
    row.emplace_back(part);
    for (std::size_t size : sizes) row.push_back(concat(size));
  }
  return row;
}

bool examine(const Kind& kind, std::size_t cohorts, const std::vector<std::size_t>& sizes) {
  const Cohort truth = draw(kind, 300000, 1, 1);
  const std::vector<Metric> metrics = metrics_for(truth.main.front().exams);
  const auto of_main = compute_metrics(metrics, truth.main.front().exams);
  const auto of_other = compute_metrics(metrics, truth.other.front().exams);
  const Coverage coverage = count(kind, cohorts, sizes, of_main, of_other);
  TextRows rows = {heading(kind, sizes)};
  const double accuracy = compute_metric(metric_named("accuracy"), truth.main.front().exams).value;
  bool fine = true;
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const double wrong = share_wrong(metrics[m], of_main[m].value, accuracy);
    std::vector<std::string> row = {std::string(metrics[m]->title)};
    const auto add = [&](double value, const std::vector<Shares>& all) {
      row.push_back(fixed(value, 3));
      for (const Shares& shares : all) {
        row.push_back(shares.text(wrong));
        fine &= shares.mark(wrong) != "!";
      }
    };
    add(of_main[m].value, coverage.own[m]);
    add(of_main[m].value - of_other[m].value, coverage.paired[m]);
    rows.push_back(row);
  }
  std::cout << table_text(rows) << "\n" << std::flush;
  return fine;
}

int cover(const std::vector<std::string>& words) {
  const std::size_t cohorts = !words.empty() ? std::stoul(words[0]) : 100;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 2; i < words.size(); ++i) sizes.push_back(std::stoul(words[i]));
  if (sizes.empty()) sizes = {20, 40, 80, 160, 500};
  bool fine = true;
  for (const Kind& kind : kKinds) {
    if (words.size() > 1 && words[1] != "all" && words[1] != kind.name) continue;
    fine &= examine(kind, cohorts, sizes);
  }
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, cover);
}
