#include "train_temporal/commands/train_report.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/system/cuda_driver.h"
#include "common/text/text.h"
#include "train_temporal/run/results/held_out.h"
#include "train_temporal/splits/split_parts.h"

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

std::unique_ptr<Monitor> start_monitor(const TrainOptions& options,
                                       const std::vector<torch::Device>& devices) {
  if (options.monitor.empty()) return nullptr;
  MonitorOptions settings;
  settings.csv = options.monitor;
  settings.existing = existing_for(options.existing.overwrite);
  for (const torch::Device& device : devices)
    if (device.is_cuda()) settings.gpus.push_back(cuda_driver::pci_bus_id(device.index()));
  return std::make_unique<Monitor>(settings);
}

// Rows of earlier starts may come before: time_s counts anew in each.
static CsvTable rows_of_last_start(const std::filesystem::path& csv) {
  CsvTable table = read_csv(csv);
  const std::size_t column = table.require_column("time_s");
  double before = 0, now = 0;
  std::size_t first = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row, before = now)
    if (parse_double(table.rows[row][column], now) && now < before) first = row;
  table.rows.erase(table.rows.begin(), table.rows.begin() + static_cast<std::ptrdiff_t>(first));
  return table;
}

void add_machine(Monitor& monitor, const std::filesystem::path& csv, TargetReport& report,
                 Json& summary) {
  const ResourceSummary taken = monitor.finish();
  summary["machine"] = to_json(taken);
  report.resources.emplace_back("machine", to_text(taken));
  const CsvTable table = rows_of_last_start(csv);
  MachineLoad& load = report.machine;
  const auto take = [&](const char* name, std::vector<double>& values) {
    const std::size_t column = table.require_column(name);
    for (const auto& row : table.rows) {
      double value = 0;
      if (!parse_double(row[column], value)) value = std::nan("");
      values.push_back(value);
    }
  };
  take("time_s", load.time_s);
  take("resident_bytes", load.resident_bytes);
  take("cpu_percent", load.cpu_percent);
  take("gpu_percent", load.gpu_percent);
  take("gpu_memory_bytes", load.gpu_bytes);
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
