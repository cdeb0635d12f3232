// Covariates, such as age or sex, are what is known of a visit besides its images. Columns of exams
// are encoded as numbers for a model, with statistics from the training part of a fit only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/json.h"
#include "common/torch/tensor.h"

namespace coldframe::temporal {

// A column with one value per exam of the cache; "" if missing.
struct CovariateColumn {
  std::string name;
  bool category = false;  // false: numeric
  std::vector<std::string> values;
};

// Numbers are standardised, (value − mean) / deviation, 0 if missing; categories are one-hot over
// those of the training part. If any training exam lacks the value, a last input is added: 1 where
// it is missing.
class CovariateEncoding {
 public:
  struct Column {
    std::string name;
    bool category = false;
    double mean = 0, deviation = 0;  // of numbers; deviation 0: constant in training, uninformative
    std::vector<std::string> categories = {};
    bool indicator = false;

    bool operator==(const Column&) const = default;
    std::int64_t width() const;  // number of inputs it is encoded as
  };

  CovariateEncoding() = default;
  // Fits the encoding to the exams given by index. Deviations divide by n, as in scikit-learn's
  // StandardScaler.
  CovariateEncoding(const std::vector<CovariateColumn>& columns,
                    const std::vector<std::size_t>& train);

  const std::vector<Column>& columns() const { return columns_; }
  bool empty() const { return columns_.empty(); }
  std::int64_t width() const;               // K
  std::vector<std::string> names() const;   // of the columns
  std::vector<std::string> places() const;  // [K] "age", "age missing", "sex = F"

  // [E, K] float32 on the CPU, of all exams; undefined without columns. A category unseen in the
  // training part counts as missing.
  torch::Tensor encode(const std::vector<CovariateColumn>& columns) const;

  Json to_json() const;
  static CovariateEncoding from_json(const Json& json);  // DataError, or what nlohmann-json throws

 private:
  std::vector<Column> columns_;
};

// Counts the given exams (by index) whose value of column `number` the encoding does not know.
std::size_t unknown_categories(const CovariateEncoding& encoding, std::size_t number,
                               const CovariateColumn& column,
                               const std::vector<std::size_t>& exams);

// Throws DataError, which names the exam, if one of `used` (by index) has a non-numeric value in a
// numeric column.
void require_numbers(const CovariateColumn& column, std::span<const cache::ExamInfo> exams,
                     const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
