#include "common/charts/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/charts/html.h"
#include "common/text/text.h"

namespace coldframe::html {
namespace {

std::vector<std::string> labels(const Scale& scale) {
  std::vector<std::string> texts;
  for (const double tick : scale.ticks()) texts.push_back(scale.label(tick));
  return texts;
}

TEST(Scale, TicksAreRoundAndWithinTheRange) {
  EXPECT_EQ(join(labels(Scale(0, 1, 0, 100)), " "), "0.0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(join(labels(Scale(-3, 11, 0, 100)), " "), "0 5 10");
  EXPECT_EQ(join(labels(Scale(0.913, 0.9137, 0, 100)), " "), "0.9130 0.9132 0.9134 0.9136");
  EXPECT_EQ(join(labels(Scale(0.999994, 1, 0, 100)), " "), "0.999994 0.999996 0.999998 1");
  EXPECT_EQ(join(labels(Scale(0, 2.5e7, 0, 100)), " "), "0 5M 10M 15M 20M 25M");
  EXPECT_EQ(join(labels(Scale(0, 2.5e6, 0, 100)), " "), "0 0.5M 1.0M 1.5M 2.0M 2.5M");
  EXPECT_EQ(join(labels(Scale(0, 8e5, 0, 100)), " "), "0 200k 400k 600k 800k");
  EXPECT_EQ(join(labels(Scale(0, 3e4, 0, 100)), " "), "0 10000 20000 30000");
  EXPECT_EQ(join(labels(Scale(1, 2, 0, 100, true)), " "), "1 2");
  EXPECT_EQ(join(labels(Scale(0, 1e5, 0, 100, true)), " "), "0 20k 40k 60k 80k 100k");
}

TEST(Scale, MapsTheRangeToPixelsAndClamps) {
  const Scale scale(10, 20, 300, 100);
  EXPECT_DOUBLE_EQ(scale(10), 300);
  EXPECT_DOUBLE_EQ(scale(15), 200);
  EXPECT_DOUBLE_EQ(scale(99), 100);
  const Scale point(5, 5, 0, 100);
  EXPECT_DOUBLE_EQ(point(5), 50);
}

TEST(Axes, WholeNumbersHaveNoTicksBetweenThem) {
  const std::string counts = histogram("t", "x", "exams", {1, 2, 2});
  Chart epochs{"t", "epoch", "loss", {{"one", {1, 2}, {0.1, 0.2}, {}, {}}}};
  epochs.whole_x = true;
  for (const std::string& svg : {counts, line_chart(epochs)}) {
    EXPECT_THAT(svg, testing::HasSubstr(">2</text>"));
    EXPECT_THAT(svg, testing::Not(testing::HasSubstr(">1.5</text>")));
  }
  EXPECT_THAT(counts, testing::HasSubstr(">0</text>"));
}

TEST(SvgText, ShorteningNeverCutsACharacter) {
  EXPECT_EQ(shortened("abc", 100), "abc");
  const std::string umlauts = "ääääääääääää";
  for (double width = 1; width < 90; width += 3) {
    EXPECT_TRUE(is_valid_utf8(shortened(umlauts, width)));
    EXPECT_LT(shortened(umlauts, width).size(), umlauts.size() + 1);
  }
  EXPECT_EQ(pixels(12.04), "12");
  EXPECT_EQ(pixels(-0.01), "0");
  EXPECT_EQ(pixels(3.25), "3.2");
}

TEST(SvgFiles, StandAloneWithoutThePagesVariables) {
  const std::string chart = line_chart({"a", "x", "y", {{"one", {0, 1}, {0, 1}, {}, {}}}});
  const std::string file = svg_file(chart);
  EXPECT_TRUE(file.starts_with("<svg xmlns="));
  EXPECT_TRUE(file.ends_with("</svg>\n"));
  for (const char* unknown : {"var(", "currentColor", "@"})
    EXPECT_EQ(file.find(unknown), std::string::npos) << unknown;
  for (const char* rule : {".c1 .line, .c1.line { fill: none; stroke: #d55e00;",
                           ".c0 .bar, .c0.bar, .c0 .cell, .c0.cell { fill: #0072b2; }",
                           "svg .tick, svg .label { fill: #5b6670; }"})
    EXPECT_NE(file.find(rule), std::string::npos) << rule;
}

}  // namespace
}  // namespace coldframe::html
