// ridge_driver CASES.json: fits each of a list of {x [n, p], loss, outputs, value, penalty}, in
// which values that are null are missing, and prints a line of JSON for each: weights [p, C] and
// intercept [C] with the penalty, those without each fold of `folds` where there are some, and what
// choose_fit() finds.
#include <algorithm>
#include <iostream>
#include <limits>

#include "common/cli/cli.h"
#include "common/files/json.h"
#include "common/torch/precision.h"
#include "train_temporal/fit/ridge.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

RowLabels labels_of(const Json& json) {
  const auto name = json.at("loss").get<std::string>();
  RowLabels labels;
  labels.loss = name == "logistic"  ? RowLabels::Loss::kLogistic
                : name == "softmax" ? RowLabels::Loss::kSoftmax
                : name == "squares" ? RowLabels::Loss::kSquares
                                    : RowLabels::Loss::kCox;
  labels.outputs = json.at("outputs").get<std::size_t>();
  for (const Json& value : json.at("value"))
    labels.value.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                           : value.get<double>());
  return labels;
}

Json coefficients(const PrincipalAxes& x, const torch::Tensor& fit) {
  const std::int64_t axes = x.axes.size(1);
  return {{"weights", doubles(x.axes.mm(fit.narrow(0, 0, axes)))},
          {"intercept", doubles(fit.narrow(0, axes, 1))}};
}

Json fit_case(const Json& json) {
  const auto rows = json.at("x").get<std::vector<std::vector<double>>>();
  torch::Tensor table = torch::empty({std::ssize(rows), std::ssize(rows.front())}, torch::kFloat64);
  for (std::int64_t i = 0; i < std::ssize(rows); ++i)
    table[i].copy_(torch::tensor(rows[static_cast<std::size_t>(i)], torch::kFloat64));
  const PrincipalAxes x = principal_axes(table);
  const RowLabels labels = labels_of(json);
  const auto penalty = json.at("penalty").get<double>();
  Json result = coefficients(x, fit_ridge(x, labels, penalty));
  if (!json.contains("folds")) return result;
  RowFolds folds{json["folds"].get<std::vector<std::size_t>>(), 0};
  folds.count = 1 + *std::ranges::max_element(folds.of_row);
  const torch::Tensor all = fit_without_folds(x, labels, folds, penalty, {});
  const auto width = static_cast<std::int64_t>(labels.outputs);
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(folds.count); ++k)
    result["without"].push_back(coefficients(x, all.narrow(1, k * width, width)));
  const LinearFit chosen = choose_fit(x, labels, folds);
  const LinearFit constants = choose_fit(no_axes(x.rows.size(0)), labels, folds);
  result["chosen"] = coefficients(x, fit_chosen(x, labels, chosen));
  result["chosen"].update(
      {{"penalty", chosen.penalty},
       {"multiple", chosen.multiple},
       {"gain", log_likelihood(labels, chosen.loss) - log_likelihood(labels, constants.loss)},
       {"loss", chosen.loss},
       {"held_out", chosen.held_out},
       {"features", x.features()}});
  return result;
}

}  // namespace

int main(int, char** arguments) {
  torch::NoGradGuard no_grad;
  for (const Json& json : read_json_file(arguments[1])) std::cout << fit_case(json).dump() << "\n";
  return 0;
}
