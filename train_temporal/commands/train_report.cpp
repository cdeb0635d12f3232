#include "train_temporal/commands/train_report.h"

#include <algorithm>
#include <iostream>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "train_temporal/run/results/held_out.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {
std::vector<std::size_t> exams_in(const std::vector<Split>& splits) {
  std::set<std::size_t> exams;
  for (const Split& split : splits) {
    for (const auto& [name, part] : parts_of(split)) exams.insert(part->begin(), part->end());
  }
  return {exams.begin(), exams.end()};
}

std::string data_digest(const Cohort& cohort, const std::vector<Split>& splits) {
  std::string content = splits_to_csv(splits, cohort.exams(), cohort.patients);
  for (std::size_t index : cohort.labeled()) {
    const cache::ExamInfo& exam = cohort.exams()[index];
    std::vector<std::string> row = cohort.cache.provenance(index);
    row.insert(row.begin(), exam.id);
    for (const Labels& labels : cohort.targets) {
      for (std::size_t i = 0; i < labels.rows(index); ++i)
        row.push_back(exact(labels.at(index, i)));
    }
    for (double time : exam.time_s) row.push_back(exact(time));
    for (int present : exam.present) row.push_back(std::to_string(present));
    for (const CovariateColumn& column : cohort.covariates) row.push_back(column.values[index]);
    content += csv_row(row);
  }
  return sha256_hex(content);
}

FoldCurve curve_of(const FinishedFit& fit) {
  FoldCurve curve{fit.name.repeat, fit.name.fold, fit.name.seed, {}, {}, fit.record.best_epoch};
  for (const EpochLosses& losses : fit.record.history) {
    curve.train_loss.push_back(losses.train);
    curve.validation_loss.push_back(losses.validation);
  }
  return curve;
}

std::vector<std::string> fit_warnings(const std::vector<FinishedFit>& fits,
                                      const TrainOptions& options, const std::string& name) {
  std::vector<std::string> warnings;
  std::size_t count = 0, first = 0;
  for (const FinishedFit& fit : fits) {
    const FitRecord& record = fit.record;
    if (record.diverged) {
      warnings.push_back(concat(fit.name.stem(), ": the loss was not a finite number in epoch ",
                                record.history.size(), "; the best epoch before it, ",
                                record.best_epoch, ", is used (try a lower --lr)"));
    }
    if (fit.name.model != options.model) continue;
    ++count;
    first += record.best_epoch == 0 && record.history.size() > 1;
  }
  if (first == 0) return warnings;
  const std::string who = concat(first, " of ", plural(count, "fit"), " of ", name, " kept ");
  warnings.push_back(
      options.tune.asked()
          ? concat(who,
                   "what they went on from: with the ViT tuned, the validation part got no "
                   "better (try another --tune-lr, fewer --tune-blocks, or --lora)")
          : concat(who,
                   "the first epoch: the validation part got no better after it, so these have "
                   "learnt next to nothing that holds on other patients (there may be nothing "
                   "to learn; else try a lower --lr, more --noise or --dropout, or --search)"));
  return warnings;
}

namespace {

RunReport compare(const std::filesystem::path& run, const TrainOptions& options) {
  return compare_held_out(run, options.against, options.bootstrap,
                          options.questions.of_predictions());
}

}  // namespace

void tell_comparison(const TrainOptions& options) {
  if (options.against.empty()) return;
  const RunReport both = compare(options.out, options);
  std::cout << (options.json ? metrics_json(both).dump(2) + "\n" : summary_text(both));
}

std::string compare_with_earlier(const TrainOptions& options, const RunFolder& folder,
                                 Json& summary) {
  if (options.against.empty()) return {};
  try {
    const RunReport both = compare(folder.file(""), options);
    summary["against"] = metrics_json(both);
    write_file_atomically(folder.file("against.html"), report_page(both).finish());
    return "\n" + summary_text(both);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    log_warning(concat("not compared with '", options.against.string(), "': ", error.what()));
    return {};
  }
}

}  // namespace coldframe::temporal
