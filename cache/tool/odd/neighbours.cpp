// Exams whose nearest ones, by the cosine of mean features, are not those that one would expect.
#include <algorithm>
#include <map>

#include "cache/tool/odd/finder.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr double kAlike = 0.999;
// An exam whose neighbours have another label or patient is odd only where this share of
// neighbours has the same.
constexpr double kRegular = 0.8;

using Keys = std::vector<std::string>;  // of each row of the means; "": unknown

struct Share {
  double of = 0, all = 0;
  double share() const { return all > 0 ? of / all : 0; }
};

Keys keys_of(const Examined& examined, const std::function<std::string(const ExamInfo&)>& key) {
  Keys keys;
  for (const std::size_t exam : examined.means.exams)
    keys.push_back(key(examined.cache.exams()[exam]));
  return keys;
}

std::size_t of_same_key(const Examined& examined, const Keys& keys, std::size_t row) {
  return static_cast<std::size_t>(std::ranges::count_if(
      examined.nearest[row],
      [&](const Neighbour& neighbour) { return keys[neighbour.row] == keys[row]; }));
}

// Neighbours share a label where those of the other exams with this label do.
void find_strange_labels(const Examined& examined, OddityFinder& finder) {
  if (examined.label.empty()) return;
  const Keys labels =
      keys_of(examined, [&](const ExamInfo& exam) { return column_value(exam, examined.label); });
  std::map<std::string, Share> shares;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    Share& share = shares[labels[row]];
    share.of += static_cast<double>(of_same_key(examined, labels, row));
    share.all += static_cast<double>(examined.nearest[row].size());
  }
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row].empty() || examined.nearest[row].size() < kNeighbours ||
        shares[labels[row]].share() < kRegular || of_same_key(examined, labels, row) > 0)
      continue;
    finder.note(
        "neighbours of another label", examined.means.exams[row],
        concat("none of its ", kNeighbours, " nearest exams has its ", examined.label, " '",
               labels[row], "'; the nearest has '", labels[examined.nearest[row][0].row], "'"));
  }
}

// Exams of one patient lie together where they do for other patients, outliers apart.
void find_strange_patients(const Examined& examined, OddityFinder& finder) {
  Keys patients =
      keys_of(examined, [](const ExamInfo& exam) { return plain_spelling(exam.patient); });
  for (std::size_t row = 0; row < patients.size(); ++row)
    if (finder.is_outlier(examined.means.exams[row])) patients[row].clear();
  std::map<std::string, std::size_t> exams;
  for (const std::string& patient : patients) ++exams[patient];
  Share near;
  std::vector<std::size_t> alone;
  for (std::size_t row = 0; row < patients.size(); ++row) {
    if (patients[row].empty() || exams[patients[row]] < 2) continue;
    near.all += 1;
    if (of_same_key(examined, patients, row) > 0)
      near.of += 1;
    else
      alone.push_back(row);
  }
  if (near.share() < kRegular) return;
  for (const std::size_t row : alone)
    finder.note(
        "neighbours of another patient", examined.means.exams[row],
        concat("none of its ", examined.nearest[row].size(),
               " nearest exams is of its patient, who has ", exams[patients[row]], " exams"));
}

void find_copies(const Examined& examined, OddityFinder& finder) {
  const std::vector<ExamInfo>& exams = examined.cache.exams();
  std::map<std::uint64_t, std::vector<std::size_t>> by_checksum;
  for (std::size_t exam = 0; exam < exams.size(); ++exam)
    by_checksum[examined.cache.checksums(exam)[0]].push_back(exam);
  for (const auto& [checksum, alike] : by_checksum)
    for (std::size_t i = 0; alike.size() > 1 && i < alike.size(); ++i)
      finder.note("features of another exam", alike[i],
                  concat("exactly the features of ", exams[alike[i == 0 ? 1 : 0]].id));
  for (std::size_t row = 0; row < examined.means.exams.size(); ++row) {
    if (examined.nearest[row].empty()) continue;
    const Neighbour nearest = examined.nearest[row][0];
    const std::size_t exam = examined.means.exams[row], other = examined.means.exams[nearest.row];
    const std::string &patient = exams[exam].patient, &of_other = exams[other].patient;
    if (nearest.cosine < kAlike || (!patient.empty() && spelt_alike(patient, of_other)) ||
        finder.has("features of another exam", exam))
      continue;
    const bool known = !patient.empty() && !of_other.empty();
    finder.note(
        "nearly the features of another exam", exam,
        concat("nearly the features of ", exams[other].id, known ? ", of another patient" : "",
               " (cosine ", fixed(nearest.cosine, 5), ")"));
  }
}

}  // namespace

void find_odd_neighbours(const Examined& examined, OddityFinder& finder) {
  find_copies(examined, finder);
  find_strange_labels(examined, finder);
  find_strange_patients(examined, finder);
}

}  // namespace coldframe::cache::tool
