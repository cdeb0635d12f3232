#include <array>

#include "cache/tool/report/report.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr double kLowRank = 8, kManyMissing = 0.05;

void add_of_features(const Json& view, std::vector<std::string>& warnings) {
  const auto count = [&](const char* key) { return view[key].get<std::size_t>(); };
  const std::array<const char*, 3> kinds[] = {
      {"nan_rows", "frame", " marked as present, with features that are not numbers."},
      {"zero_rows", "frame", " with only zeros as features."},
      {"dead_dimensions", "dimension",
       " with the same value in every frame, which carries nothing."}};
  for (const auto& [key, of, what] : kinds)
    if (count(key) > 0) warnings.push_back(plural(count(key), of) + what);
  if (count("duplicate_rows") * 20 > count("rows"))
    warnings.push_back(concat(count("duplicate_rows"), " of ", count("rows"),
                              " frames have exactly the features of another frame. Still images "
                              "and repeated frames look like this."));
  const double rank = view["effective_rank"].get<double>();
  if (rank > 0 && rank < kLowRank)
    warnings.push_back(concat("The effective rank of the features is only ", fixed(rank, 1),
                              ": frames differ in few ways as this backbone sees them."));
}

void add_of_exams(const Json& view, std::vector<std::string>& warnings) {
  const std::size_t identical = view["identical_exams"].size();
  if (identical > 0)
    warnings.push_back(
        concat(plural(identical, "group"), identical == 100 ? " or more" : "",
               " of exams have exactly the same features: ", join(view["identical_exams"][0], ", "),
               identical > 1 ? ", and others." : "."));
  const Json& near = view["near_duplicates"];
  if (near["pairs"] != 0)
    warnings.push_back(concat(near["pairs"].dump(), near["pairs"] == 1 ? " pair" : " pairs",
                              " of exams that are not known to be of one patient are nearly alike "
                              "(cosine of mean features at least ",
                              near["cosine_at_least"].dump(),
                              "): ", join(near["closest"][0]["exams"], " and "),
                              near["pairs"] == 1 ? "" : ", and others",
                              ". If one exam stands under two patients, a split by patient does "
                              "not keep training and test apart."));
}

}  // namespace

std::vector<std::string> warnings_of(const ReportData& data) {
  const Json& info = data.overview;
  const auto number = [&](const char* key) { return info[key].get<std::size_t>(); };
  std::vector<std::string> warnings;
  if (!info["failures"].empty())
    warnings.push_back(concat(plural(info["failures"].size(), "failure"),
                              " while extracting; the reasons are below."));
  if (static_cast<double>(number("missing_frames")) >
      kManyMissing * static_cast<double>(number("frames")))
    warnings.push_back(concat(number("missing_frames"), " of ", number("frames"),
                              " frames are missing; they keep their slots and are masked."));
  if (number("exams_without_patient") > 0)
    warnings.push_back(concat(plural(number("exams_without_patient"), "exam"),
                              " without a patient: training cannot keep a patient's exams on one "
                              "side of a split."));
  if (info["time"]["span_s"].is_null() && number("exams") > 0)
    warnings.emplace_back("No exam has times: intervals between frames are unknown to the model.");
  if (info["precision"].size() > 1)
    warnings.push_back(concat("Features were computed in several precisions (",
                              join(info["precision"], ", "), ")."));
  add_of_features(data.statistics, warnings);
  add_of_exams(data.statistics, warnings);
  return warnings;
}

}  // namespace coldframe::cache::tool
