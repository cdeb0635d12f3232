#include "train_temporal/metrics/clinical/delong.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/numbers/quantile.h"
#include "train_temporal/metrics/intervals/bounds.h"

namespace coldframe::temporal {
namespace {

// The share of the other class that each exam is on the right side of; its means over either class
// are the AUROC.
std::vector<double> structural_components(const OneVsRest& exams) {
  std::vector<double> component = midranks(exams.score);
  std::array<double, 2> count{};
  for (int of_class = 0; of_class < 2; ++of_class) {
    std::vector<double> own;
    for (std::size_t i = 0; i < exams.score.size(); ++i)
      if (exams.positive[i] == of_class) own.push_back(exams.score[i]);
    count[static_cast<std::size_t>(of_class)] = static_cast<double>(own.size());
    const std::vector<double> rank = midranks(own);
    for (std::size_t i = 0, next = 0; i < component.size(); ++i)
      if (exams.positive[i] == of_class) component[i] -= rank[next++];
  }
  for (std::size_t i = 0; i < component.size(); ++i)
    component[i] = exams.positive[i] ? component[i] / count[0] : 1 - component[i] / count[1];
  return component;
}

MetricValue half_reach(const MetricValue& error, double level) {
  return error.defined() ? MetricValue::of(error.value * normal_quantile((1 + level) / 2)) : error;
}

DeLong of_variance(const MetricValue& value, const MetricValue& variance, double least,
                   double level) {
  DeLong result;
  result.estimate.value = value;
  result.error = !value.defined() ? value : variance;
  if (result.error.defined()) result.error.value = std::sqrt(std::max(variance.value, 0.0));
  const MetricValue reach = half_reach(result.error, level);
  result.estimate.low = result.estimate.high = reach;
  if (!reach.defined()) return result;
  result.estimate.low.value = std::max(value.value - reach.value, least);
  result.estimate.high.value = std::min(value.value + reach.value, 1.0);
  return result;
}

bool is_certain(const AurocParts& parts) {
  return parts.auroc.value <= 0 || parts.auroc.value >= 1;
}

bool are_equal(const AurocParts& a, const AurocParts& b) {
  return std::ranges::equal(a.patients, b.patients, [](const auto& x, const auto& y) {
    return std::ranges::equal(x.second.of, y.second.of);
  });
}

}  // namespace

AurocParts auroc_parts(std::span<const FoldScores> parts) {
  AurocParts result;
  double sum = 0, defined = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const OneVsRest exams = one_vs_rest(parts[p].exams, 1);
    const MetricValue figure = auroc(exams.score, exams.positive);
    if (!figure.defined()) {
      if (defined == 0) result.auroc = figure;
      continue;
    }
    sum += figure.value;
    defined += 1;
    const auto ill = static_cast<double>(std::ranges::count(exams.positive, 1));
    const double count[2] = {static_cast<double>(exams.positive.size()) - ill, ill};
    const std::vector<double> component = structural_components(exams);
    for (std::size_t i = 0; i < component.size(); ++i) {
      auto& patient =
          result.patients.try_emplace(parts[p].patient[i], AurocParts::Patient{p}).first->second;
      const int of_class = exams.positive[i];
      patient.has[of_class] = true;
      patient.of[of_class] += (component[i] - figure.value) / count[of_class];
    }
  }
  if (defined == 0) return result;
  result.auroc = MetricValue::of(sum / defined);
  for (auto& [id, patient] : result.patients)
    for (double& each : patient.of) each /= defined;
  return result;
}

MetricValue delong_covariance(const AurocParts& a, const AurocParts& b) {
  struct Sum {
    double patients = 0, products = 0;
  };
  std::map<std::size_t, std::array<Sum, 3>> parts;  // healthy, ill, and both by the other's
  for (const auto& [id, x] : a.patients) {
    const AurocParts::Patient& y = b.patients.at(id);
    auto& sums = parts[x.part];
    for (std::size_t c = 0; c < 2; ++c) {
      sums[c].patients += x.has[c];
      sums[c].products += x.of[c] * y.of[c];
    }
    sums[2].patients += 1;
    sums[2].products += x.of[0] * y.of[1] + x.of[1] * y.of[0];
  }
  double covariance = 0;
  for (const auto& [part, sums] : parts) {
    for (const auto& [patients, products] : sums) {
      if (patients < 2) return MetricValue::none("a single patient of a class in a part");
      covariance += patients / (patients - 1) * products;
    }
  }
  return MetricValue::of(covariance);
}

DeLong delong_auroc(const AurocParts& parts, double level) {
  if (!parts.auroc.defined()) return of_variance(parts.auroc, parts.auroc, 0, level);
  DeLong result = of_variance(parts.auroc, delong_covariance(parts, parts), 0, level);
  result.p = MetricValue::none("not of a difference");
  if (is_certain(parts))
    result.estimate.low = result.estimate.high =
        MetricValue::none("no patient contradicts it, which DeLong's variance takes for certainty");
  return result;
}

DeLong delong_difference(const AurocParts& a, const AurocParts& b, double level) {
  if (!a.auroc.defined()) return of_variance(a.auroc, a.auroc, -1, level);
  const MetricValue aa = delong_covariance(a, a), bb = delong_covariance(b, b),
                    ab = delong_covariance(a, b);
  MetricValue variance = aa;
  if (aa.defined()) variance.value = aa.value + bb.value - 2 * ab.value;
  DeLong result = of_variance(MetricValue::of(a.auroc.value - b.auroc.value), variance, -1, level);
  result.p = result.error;
  if (!result.error.defined()) return result;
  // Cancellation leaves a little of a variance that is none.
  const bool none = variance.value <= 1e-15;
  if (none || is_certain(a) || is_certain(b)) {
    result.p = MetricValue::none(none ? "no patient makes a difference between the two"
                                      : "no patient contradicts one of the two");
    if (is_certain(a) || is_certain(b) || !are_equal(a, b))
      result.estimate.low = result.estimate.high = result.p;
  } else {
    result.p.value =
        std::erfc(std::abs(result.estimate.value.value) / result.error.value / std::sqrt(2.0));
  }
  return result;
}

}  // namespace coldframe::temporal
