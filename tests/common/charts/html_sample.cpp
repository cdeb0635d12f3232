// Writes a page with one of everything to stdout: for the cross-check that its charts are
// well-formed, and to be looked at.
#include <cmath>
#include <iostream>

#include "common/charts/html.h"

using namespace coldframe::html;

namespace {

Chart losses() {
  Chart chart{"Loss per epoch", "epoch", "cross-entropy", {}};
  Series train{"training", {}, {}, {}, {}}, inner{"validation (inner)", {}, {}, {}, {}};
  for (int i = 1; i <= 60; ++i) {
    train.x.push_back(i);
    train.y.push_back(0.12 + 0.6 * std::exp(-i / 14.0) + 0.012 * std::sin(i * 1.7));
    inner.x.push_back(i);
    inner.y.push_back(0.25 + 0.45 * std::exp(-i / 10.0) + 0.002 * i + 0.02 * std::sin(i * 0.9));
    inner.low.push_back(inner.y.back() - 0.05);
    inner.high.push_back(inner.y.back() + 0.05);
  }
  inner.dashed = true;
  chart.series = {train, inner};
  return chart;
}

Chart roc() {
  Chart chart{"ROC", "1 − specificity", "sensitivity", {}};
  chart.unit_square = chart.diagonal = true;
  const char* names[] = {"GRU, AUROC 0.91", "single frame, AUROC 0.58"};
  for (int s = 0; s < 2; ++s) {
    Series series{names[s], {}, {}, {}, {}};
    for (int i = 0; i <= 200; ++i) {
      const double x = i / 200.0, y = std::pow(x, s == 0 ? 0.12 : 0.75);
      series.x.push_back(x);
      series.y.push_back(y);
      if (s == 0) {
        series.low.push_back(std::max(0.0, y - 0.07 * (1 - x)));
        series.high.push_back(std::min(1.0, y + 0.05 * (1 - x)));
      }
    }
    chart.series.push_back(series);
  }
  return chart;
}

Chart map() {
  Chart chart{"Features, first two principal components", "component 1", "component 2", {}};
  for (int s = 0; s < 9; ++s) {
    Series series{"site " + std::to_string(s + 1), {}, {}, {}, {}};
    series.points = true;
    for (int i = 0; i < 30; ++i) {
      const double angle = 0.7 * s + 0.04 * i;
      series.x.push_back((3 + std::sin(i * 2.3 + s)) * std::cos(angle));
      series.y.push_back((3 + std::cos(i * 1.9 + s)) * std::sin(angle));
    }
    chart.series.push_back(series);
  }
  return chart;
}

}  // namespace

int main() {
  Page page("A sample report", "130 exams · 1560 frames · 5 folds");
  page.section("Summary", key_values({{"cache", "build/pocus.cache"},
                                      {"recipe", "3f9a…"},
                                      {"AUROC", "0.912 [0.86, 0.95]"}}));
  Chart rate{"Learning rate", "step", "", {Series{"", {}, {}, {}, {}}}};
  for (int i = 0; i < 5000; ++i) {
    rate.series[0].x.push_back(i);
    rate.series[0].y.push_back(1e-3 * std::exp(-i / 900.0));
  }
  page.section("Curves", line_chart(losses()) + line_chart(rate) + line_chart(roc()) +
                             matrix_chart("Confusion at the validation threshold",
                                          {"regular", "pneumonia & <other>"},
                                          {"regular", "pneumonia"}, {{58, 6}, {9, 57}}));
  page.section("Cache", line_chart(map()) + bar_chart("Exams per class",
                                                      {{"regular", 64},
                                                       {"pneumonia", 49},
                                                       {"a class with a very long name indeed", 17},
                                                       {"none", 0}},
                                                      "exams"));
  page.section("Folds",
               table({"fold", "exams", "AUROC", "note"},
                     {{"1", "26", "0.93", "–"}, {"2", "26", "0.88", "two patients short"}}));
  page.section("Flow", flow_chart({"Flow of exams",
                                   {"142 exams found"},
                                   {"12 exams left out", "2 could not be read",
                                    "10 of a kind with a name that is longer than its box"},
                                   {"130 exams used", "of 61 patients"},
                                   {{"training", "78–84 exams", "of 37–40 patients"},
                                    {"validation", "20–26 exams", "of 9–12 patients"},
                                    {"held out", "26 exams", "of 12–13 patients"}},
                                   "in each of 5 folds"}));
  std::cout << page.finish();
}
