// A linear model is fitted to these: the labels of rows, and the loss of their outputs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace coldframe::temporal {

struct RowLabels {
  enum class Loss {
    kLogistic,  // each output by itself: log(1 + exp(z)) − y z
    kSoftmax,   // cross-entropy of the classes
    kSquares,   // (z − y)² / 2
    kCox,       // the negative logarithm of Cox's partial likelihood, with Efron's ties
  };
  Loss loss = Loss::kLogistic;
  std::size_t outputs = 1;  // C
  // [n, C] of kLogistic (0 or 1) and kSquares, NaN: no label, and the row tells that output
  // nothing; else [n]: the class, or a survival_label(), which every row has.
  std::vector<double> value = {};

  std::size_t width() const {  // labels of a row
    return loss == Loss::kLogistic || loss == Loss::kSquares ? outputs : 1;
  }
  std::size_t rows() const { return value.size() / width(); }
  bool of_classes() const {  // each row is of one class, which `value` numbers: discriminants fit
    return loss == Loss::kSoftmax || (loss == Loss::kLogistic && outputs == 1);
  }
  RowLabels at(const std::vector<std::size_t>& rows) const;
  // About the second derivative of a row's loss, on average, by which steps are scaled.
  double curvature() const;
};

// The sum of the losses of outputs z [n, C], and its gradient [n, C].
double loss_of(const RowLabels& labels, std::span<const double> z, std::span<double> gradient);

}  // namespace coldframe::temporal
