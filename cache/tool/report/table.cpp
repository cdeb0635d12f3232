// Which exams are odd, and the table of all exams.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "cache/format/column_type.h"
#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/times.h"
#include "cache/tool/report/report.h"
#include "common/charts/data_table.h"
#include "common/numbers/finite.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kOddShown = 100, kMostColumns = 30;
constexpr double kMostExact = 1e6;  // whole numbers above may be names, which float32 would blur

// The oddest first.
std::vector<std::size_t> by_oddness(const Oddities& odd) {
  std::vector<std::size_t> order(odd.oddness.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return odd.oddness[i]; });
  return order;
}

// Patients by their names, or by numbers in order of appearance.
std::vector<std::string> patients_of(const CacheReader& cache, bool by_name) {
  std::unordered_map<std::string, std::size_t> numbers;
  std::vector<std::string> patients;
  for (const ExamInfo& exam : cache.exams()) {
    const auto place = numbers.emplace(plain_spelling(exam.patient), numbers.size() + 1).first;
    patients.push_back(by_name || exam.patient.empty() ? exam.patient : concat(place->second));
  }
  return patients;
}

// A number for each exam.
template <typename Value>
std::vector<double> each_exam(const CacheReader& cache, const Value& value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < cache.exams().size(); ++i)
    values.push_back(static_cast<double>(value(i)));
  return values;
}

void add_spans(const CacheReader& cache, html::DataTable& table) {
  std::vector<double> spans =
      each_exam(cache, [&](std::size_t i) { return time_span(cache.exams()[i]); });
  if (finite_values(spans).empty()) return;
  const TimeUnit unit = to_own_unit(spans);
  table.add_numbers(concat("span, ", unit.name), std::move(spans), 2);
}

void add_nearest(const ReportData& data, html::DataTable& table) {
  std::vector<std::uint32_t> nearest(data.figures.size(), html::DataTable::kNoRow);
  for (std::size_t row = 0; row < data.nearest.size(); ++row)
    if (!data.nearest[row].empty())
      nearest[data.means.exams[row]] =
          static_cast<std::uint32_t>(data.means.exams[data.nearest[row][0].row]);
  table.add_rows("nearest exam", std::move(nearest));
}

// Numbers have as many digits behind the point as their texts, at most 4.
void add_column(const CacheReader& cache, const std::string& name, html::DataTable& table) {
  std::vector<std::string> texts;
  std::vector<double> numbers;
  double largest = 0;
  std::size_t digits = 0;
  for (const ExamInfo& exam : cache.exams()) {
    const std::string text = trim(texts.emplace_back(column_value(exam, name)));
    if (const std::size_t point = text.find('.'); point != std::string::npos)
      digits = std::max(digits, text.size() - point - 1);
    double& number = numbers.emplace_back(std::nan(""));
    if (!is_missing(text)) parse_double(text, number);
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  if (infer_type(texts) == ColumnType::kText || largest >= kMostExact)
    table.add_text(name, std::move(texts));
  else
    table.add_numbers(name, std::move(numbers), std::min(static_cast<int>(digits), 4));
}

void add_sheets(const CacheReader& cache, const Oddities& odd, Pictures& pictures,
                html::DataTable& table) {
  if (!pictures.wanted()) return;
  for (const std::size_t exam : by_oddness(odd)) {
    const auto frames = evenly_spaced(cache.exams()[exam].frames(), kMostFramesCompared);
    const std::vector<html::Picture> sheet = pictures.of(exam, frames);
    if (pictures.is_full()) break;
    if (!sheet.empty()) table.pictures[exam] = sheet;
  }
  table.without_pictures = "This page has no pictures of this exam.";
}

}  // namespace

html::Body odd_section(const CacheReader& cache, const ReportData& data) {
  html::Rows rows;
  std::vector<std::string> links;
  std::size_t all = 0;
  for (const std::size_t exam : by_oddness(data.odd)) {
    if (data.odd.oddness[exam] == 0) break;
    if (++all > kOddShown) continue;
    rows.push_back(
        {cache.exams()[exam].id, fixed(data.odd.oddness[exam], 1), data.odd.reasons[exam]});
    links.push_back(html::link_to(kExamTable, exam));
  }
  html::Body body = html::paragraph("No exam is unlike the others.");
  if (!rows.empty()) {
    const std::string listed = rows.size() < all ? concat("; the ", rows.size(),
                                                          " oddest are listed here, all in the "
                                                          "table of exams")
                                                 : "";
    body = html::paragraph(concat(
               all, " of ", plural(cache.exams().size(), "exam"), listed,
               ". Each reason counts 1; a number counts as often as its distance from the median "
               "exceeds 6 robust standard deviations, at most 10.")) +
           html::table({"exam", "oddness", "why"}, rows, links);
  }
  if (!data.odd.common.empty())
    body += html::paragraph(concat("Too common to be odd: ", join(data.odd.common, "; "), "."));
  return body;
}

html::Body table_section(const CacheReader& cache, const ReportData& data, Pictures& pictures) {
  const std::vector<ExamInfo>& exams = cache.exams();
  if (exams.empty()) return html::paragraph("There are no exams.");
  std::vector<std::string> ids;
  for (const ExamInfo& exam : exams) ids.push_back(exam.id);
  html::DataTable table(kExamTable, "exam", std::move(ids));
  table.add_numbers("oddness", data.odd.oddness, 1);
  table.add_text("why", data.odd.reasons);
  table.add_text("patient", patients_of(cache, data.with_patients));
  table.add_numbers("frames", each_exam(cache, [&](std::size_t i) { return exams[i].frames(); }),
                    0);
  add_spans(cache, table);
  table.add_numbers("norm", each_exam(cache, [&](std::size_t i) { return data.figures[i].norm; }),
                    3);
  table.add_numbers("distance", data.odd.distance, 3);
  add_nearest(data, table);
  std::vector<std::string> columns = cache.column_names();
  const std::size_t all = columns.size();
  columns.resize(std::min(all, kMostColumns));
  for (const std::string& name : columns) add_column(cache, name, table);
  add_sheets(cache, data.odd, pictures, table);
  return html::paragraph(concat(
             "Norm: the median over the frames. Distance: the mean one between the mean features "
             "of the exam and of its 5 nearest exams",
             data.means.exams.size() > kMostExhaustive
                 ? ", of those that lie near it along a principal axis"
                 : "",
             ". A click on a name shows the exam.",
             columns.size() < all ? concat(" The first ", columns.size(), " of ", all, " columns.")
                                  : "")) +
         table.html("oddness");
}

}  // namespace coldframe::cache::tool
