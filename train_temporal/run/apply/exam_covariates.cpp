#include "train_temporal/run/apply/exam_covariates.h"

#include <algorithm>
#include <optional>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

std::vector<CovariateColumn> covariate_columns(const CovariateEncoding& encoding,
                                               const SequenceReader& cache,
                                               const std::vector<std::size_t>& exams,
                                               const std::filesystem::path& labels) {
  std::optional<CsvTable> table;
  if (!labels.empty()) table = read_csv(labels);
  const std::vector<std::string> known = cache.column_names();
  std::vector<CovariateColumn> columns;
  std::vector<std::string> said;
  for (const auto& learnt : encoding.columns()) {
    if (!(table && table->column(learnt.name)) &&
        std::ranges::find(known, learnt.name) == known.end())
      throw ConfigError(concat("the models take the covariates ", join(encoding.names(), ", "),
                               ", and the cache", table ? " and --labels have" : " has",
                               " no column '", learnt.name,
                               "'; extract these exams with a manifest that has it, or give a CSV "
                               "with columns exam and ",
                               learnt.name, " by --labels"));
    if (!table || !table->column(learnt.name)) cache.require_agreed(learnt.name);
    columns.push_back(
        {learnt.name, learnt.category,
         exam_column(cache.exams(), table ? &*table : nullptr, learnt.name, "covariates", said)});
    require_numbers(columns.back(), cache.exams(), exams);
  }
  for (const std::string& one : said) log_info_once(one);
  return columns;
}

std::vector<std::string> missing_covariates(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams) {
  std::vector<std::string> said;
  for (const CovariateColumn& column : columns) {
    const auto missing =
        std::ranges::count_if(exams, [&](std::size_t exam) { return column.values[exam].empty(); });
    if (missing > 0)
      said.push_back(concat("covariate '", column.name, "': ",
                            plural(static_cast<std::size_t>(missing), "exam"), " without a value"));
  }
  return said;
}

std::vector<std::string> unknown_covariates(const CovariateEncoding& encoding,
                                            const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t unknown = unknown_categories(encoding, i, columns[i], exams);
    if (unknown > 0)
      said.push_back(concat("covariate '", columns[i].name, "': ", plural(unknown, "exam"),
                            " with a category that the training did not have count as missing"));
  }
  return said;
}

}  // namespace coldframe::temporal
