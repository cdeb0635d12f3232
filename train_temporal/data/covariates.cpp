#include "train_temporal/data/covariates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Values are divided by deviations: a number must not become infinite by it.
constexpr double kMinDeviation = 1e-30;

bool is_number(const std::string& value, double& number) {
  return parse_double(value, number) && std::isfinite(number);
}

CovariateEncoding::Column learn_numbers(const CovariateColumn& column,
                                        const std::vector<std::size_t>& train) {
  CovariateEncoding::Column learnt{column.name};
  std::vector<double> known;
  for (std::size_t exam : train) {
    double number = 0;
    if (is_number(column.values[exam], number)) known.push_back(number);
  }
  learnt.indicator = known.size() < train.size();
  const auto count = static_cast<double>(std::max<std::size_t>(known.size(), 1));
  for (double number : known) learnt.mean += number / count;
  double squares = 0;
  for (double number : known) squares += (number - learnt.mean) * (number - learnt.mean);
  const double deviation = std::sqrt(squares / count);
  // Alike but for rounding is alike.
  if (deviation > std::max(1e-9 * std::abs(learnt.mean), kMinDeviation))
    learnt.deviation = deviation;
  return learnt;
}

CovariateEncoding::Column learn_categories(const CovariateColumn& column,
                                           const std::vector<std::size_t>& train) {
  std::set<std::string> known;
  for (std::size_t exam : train) known.insert(column.values[exam]);
  CovariateEncoding::Column learnt{column.name, true};
  learnt.indicator = known.erase("") > 0;
  learnt.categories.assign(known.begin(), known.end());
  std::ranges::stable_sort(learnt.categories, natural_less);
  return learnt;
}

// Writes one exam's value of a column; false where it is missing or not known.
bool encode_value(const CovariateEncoding::Column& column, const std::string& value, float* out) {
  if (column.category) {
    const auto found = find_spelling(column.categories, value);
    if (found) out[*found] = 1;
    return found.has_value();
  }
  double number = 0;
  if (!is_number(value, number)) return false;
  if (column.deviation > 0) *out = static_cast<float>((number - column.mean) / column.deviation);
  return true;
}

}  // namespace

std::int64_t CovariateEncoding::Column::width() const {
  return (category ? static_cast<std::int64_t>(categories.size()) : 1) + (indicator ? 1 : 0);
}

CovariateEncoding::CovariateEncoding(const std::vector<CovariateColumn>& columns,
                                     const std::vector<std::size_t>& train) {
  for (const CovariateColumn& column : columns)
    columns_.push_back(column.category ? learn_categories(column, train)
                                       : learn_numbers(column, train));
}

std::int64_t CovariateEncoding::width() const {
  std::int64_t width = 0;
  for (const Column& column : columns_) width += column.width();
  return width;
}

std::vector<std::string> CovariateEncoding::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  return names;
}

std::vector<std::string> CovariateEncoding::places() const {
  std::vector<std::string> places;
  for (const Column& column : columns_) {
    if (!column.category) places.push_back(column.name);
    for (const std::string& category : column.categories)
      places.push_back(concat(column.name, " = ", category));
    if (column.indicator) places.push_back(column.name + " missing");
  }
  return places;
}

torch::Tensor CovariateEncoding::encode(const std::vector<CovariateColumn>& columns) const {
  if (columns_.empty()) return {};
  const std::size_t exams = columns.front().values.size();
  const std::int64_t width = this->width();
  torch::Tensor table = torch::zeros({static_cast<std::int64_t>(exams), width});
  float* row = table.data_ptr<float>();
  for (std::size_t exam = 0; exam < exams; ++exam, row += width) {
    float* out = row;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool known = encode_value(columns_[i], columns[i].values[exam], out);
      out += columns_[i].width();
      if (columns_[i].indicator) out[-1] = known ? 0.0f : 1.0f;
    }
  }
  return table;
}

Json CovariateEncoding::to_json() const {
  Json json = Json::array();
  for (const Column& column : columns_) {
    Json& entry = json.emplace_back(Json{{"name", column.name}, {"missing", column.indicator}});
    if (column.category) {
      entry["categories"] = column.categories;
    } else {
      entry["mean"] = column.mean;
      entry["deviation"] = column.deviation;
    }
  }
  return json;
}

CovariateEncoding CovariateEncoding::from_json(const Json& json) {
  if (!json.is_array()) throw DataError("its covariates are damaged: expected a list of columns");
  CovariateEncoding encoding;
  for (const Json& entry : json) {
    Column column{entry.at("name").get<std::string>(), entry.contains("categories")};
    column.indicator = entry.at("missing").get<bool>();
    if (column.category) {
      column.categories = entry["categories"].get<std::vector<std::string>>();
    } else {
      column.mean = entry.at("mean").get<double>();
      column.deviation = entry.at("deviation").get<double>();
    }
    const bool scaled = column.deviation == 0 || column.deviation >= kMinDeviation;
    if (!std::isfinite(column.mean) || !std::isfinite(column.deviation) || !scaled)
      throw DataError(concat("covariate '", column.name, "': mean ", column.mean, " and deviation ",
                             column.deviation, ", expected finite numbers, the latter 0 or from ",
                             kMinDeviation, " up"));
    const std::set<std::string> different(column.categories.begin(), column.categories.end());
    const auto names = encoding.names();
    if (different.size() < column.categories.size() ||
        std::ranges::find(names, column.name) != names.end())
      throw DataError(concat("covariate '", column.name, "': it, or a category of it, is there ",
                             "twice; the file is damaged"));
    encoding.columns_.push_back(std::move(column));
  }
  return encoding;
}

std::size_t unknown_categories(const CovariateEncoding& encoding, std::size_t number,
                               const CovariateColumn& column,
                               const std::vector<std::size_t>& exams) {
  const CovariateEncoding::Column& learnt = encoding.columns()[number];
  if (!learnt.category) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(exams, [&](std::size_t exam) {
    const std::string& value = column.values[exam];
    return !value.empty() && !find_spelling(learnt.categories, value);
  }));
}

void require_numbers(const CovariateColumn& column, std::span<const cache::ExamInfo> exams,
                     const std::vector<std::size_t>& used) {
  if (column.category) return;
  for (const std::size_t i : used) {
    double number = 0;
    if (column.values[i].empty()) continue;
    if (is_number(column.values[i], number) && is_learnable(number)) continue;
    throw DataError(concat("exam '", exams[i].id, "': the covariate '", column.name, "' is '",
                           column.values[i], "', expected a number of at most ", exact(kMaxLearnt),
                           "; correct it, or leave it empty"));
  }
}

}  // namespace coldframe::temporal
