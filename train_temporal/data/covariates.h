// Covariates, age or sex, are known of a visit besides its images: columns of exams become numbers
// for a model by what the training part of a fit shows of them, and nothing else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/json.h"
#include "common/torch/tensor.h"

namespace coldframe::temporal {

// A column with a value per exam of the cache, "" where an exam has none.
struct CovariateColumn {
  std::string name;
  bool category = false;  // else its values are numbers
  std::vector<std::string> values;
};

// A number becomes (value − mean) / deviation, 0 where it is missing; a category a 1 among zeros,
// one place for each that the training part has. Where an exam of the training part has no value, a
// last place says of each exam whether it has one: 1 where it is missing.
class CovariateEncoding {
 public:
  struct Column {
    std::string name;
    bool category = false;
    double mean = 0, deviation = 0;  // of numbers; 0: they were all alike and tell nothing
    std::vector<std::string> categories = {};
    bool indicator = false;

    bool operator==(const Column&) const = default;
    std::int64_t width() const;  // numbers that it becomes
  };

  CovariateEncoding() = default;
  // Learns from the exams given by index. Deviations are by n, as scikit-learn's StandardScaler
  // takes them.
  CovariateEncoding(const std::vector<CovariateColumn>& columns,
                    const std::vector<std::size_t>& train);

  const std::vector<Column>& columns() const { return columns_; }
  bool empty() const { return columns_.empty(); }
  std::int64_t width() const;               // K
  std::vector<std::string> names() const;   // of the columns
  std::vector<std::string> places() const;  // [K] "age", "age missing", "sex = F"

  // [E, K] float32 on the CPU, of all exams; undefined without columns. A category that the
  // training part has not is missing.
  torch::Tensor encode(const std::vector<CovariateColumn>& columns) const;

  Json to_json() const;
  static CovariateEncoding from_json(const Json& json);  // DataError, and what nlohmann-json throws

 private:
  std::vector<Column> columns_;
};

// Counts the exams, of those given by index, that have a value of column `number` which the
// encoding does not know.
std::size_t unknown_categories(const CovariateEncoding& encoding, std::size_t number,
                               const CovariateColumn& column,
                               const std::vector<std::size_t>& exams);

// DataError, which names the exam, where one of `used`, by index, has a value that is none in a
// column of numbers.
void require_numbers(const CovariateColumn& column, std::span<const cache::ExamInfo> exams,
                     const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
