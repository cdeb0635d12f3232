#include "extract/frames/dicom/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "extract/frames/dicom/data_set.h"
#include "extract/frames/dicom/pixels/pixel_layout.h"
#include "extract/frames/dicom/times.h"

namespace coldframe::frames::dicom {
namespace {

// PS3.3 C.7.6.2: the position's part along the normal of rows and columns.
double slice_position(DcmItem& root) {
  const auto place = numbers_of(root, DCM_ImagePositionPatient);
  const auto axes = numbers_of(root, DCM_ImageOrientationPatient);
  if (place.size() != 3) return kUnknown;
  if (axes.size() != 6) return kUnknown;
  return place[0] * (axes[1] * axes[5] - axes[2] * axes[4]) +
         place[1] * (axes[2] * axes[3] - axes[0] * axes[5]) +
         place[2] * (axes[0] * axes[4] - axes[1] * axes[3]);
}

using Key = double SeriesKeys::*;

bool all_known(const std::vector<SeriesKeys>& keys, Key key) {
  return std::none_of(keys.begin(), keys.end(),
                      [&](const SeriesKeys& each) { return std::isnan(each.*key); });
}

std::size_t count_different(const std::vector<SeriesKeys>& keys, Key key) {
  std::set<double> values;
  for (const SeriesKeys& each : keys) values.insert(each.*key);
  return values.size();
}

SeriesKeys read_keys(DcmItem& root) {
  const double number = number_of(root, DCM_SeriesNumber, kUnknown);
  const Moment moment = acquisition(root);
  return {std::isnan(number) ? "" : fixed(number, 0),
          moment.seconds,
          slice_position(root),
          number_of(root, DCM_InstanceNumber, kUnknown),
          moment.dated,
          moment.acquired,
          text_of(root, DCM_SOPInstanceUID)};
}

template <typename T>
void reorder(std::vector<T>& list, const std::vector<std::size_t>& order) {
  std::vector<T> sorted;
  for (const std::size_t index : order) sorted.push_back(std::move(list[index]));
  list = std::move(sorted);
}

// Times of day become comparable. A pause of more than half a day is the rest of the day: what
// comes before it was acquired after midnight.
void settle_times_of_day(std::vector<SeriesKeys>& keys, bool one_series) {
  const auto dated = [](const SeriesKeys& each) { return each.dated; };
  const bool usable = one_series && std::none_of(keys.begin(), keys.end(), dated);
  std::vector<double> times;
  for (SeriesKeys& each : keys) {
    if (!each.dated && !usable) each.time = kUnknown;
    times.push_back(each.time);
  }
  if (!usable || !all_known(keys, &SeriesKeys::time)) return;
  std::sort(times.begin(), times.end());
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] - times[i - 1] <= kDay / 2) continue;
    for (SeriesKeys& each : keys) each.time += each.time < times[i] ? kDay : 0;
  }
}

}  // namespace

bool SeriesKeys::is_copy_of(const SeriesKeys& other) const {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  return !uid.empty() && uid == other.uid && same(time, other.time) &&
         same(position, other.position) && same(instance, other.instance);
}

void order_series(std::vector<ExamItem>& items, std::vector<SeriesKeys> keys, bool one_series) {
  settle_times_of_day(keys, one_series);
  const bool placed = all_known(keys, &SeriesKeys::position);
  const std::size_t places = placed ? count_different(keys, &SeriesKeys::position) : 0;
  const bool volume = one_series && keys.size() > 1 && places == keys.size();
  const bool acquired =
      std::all_of(keys.begin(), keys.end(), [](const SeriesKeys& each) { return each.acquired; });
  const bool timed = !volume && (acquired || places < 2 || !one_series) &&
                     all_known(keys, &SeriesKeys::time) &&
                     count_different(keys, &SeriesKeys::time) > 1;
  std::vector<Key> decisive;
  if (timed) decisive.push_back(&SeriesKeys::time);
  if (placed) decisive.push_back(&SeriesKeys::position);
  if (all_known(keys, &SeriesKeys::instance)) decisive.push_back(&SeriesKeys::instance);
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    for (const Key key : decisive) {
      if (keys[a].*key != keys[b].*key) return keys[a].*key < keys[b].*key;
    }
    return false;
  });
  reorder(items, order);
  reorder(keys, order);
  if (!timed) return;
  for (std::size_t i = 0; i < items.size(); ++i) items[i].time_s = keys[i].time - keys[0].time;
}

SeriesList::Verdict SeriesList::add(const ExamItem& item, std::string& reason) {
  const DataSet data(std::make_shared<InputFile>(item.path, refuse_unnamed));
  DcmItem& root = data.root();
  if (data.pixels().kind == PixelElement::Kind::kNone) {
    reason = concat("it is ", describe_without_image(data));
    return Verdict::kNoImage;
  }
  const bool by_study = grouping_ == DicomGrouping::kStudy;
  const std::string uid = text_of(root, by_study ? DCM_StudyInstanceUID : DCM_SeriesInstanceUID);
  if (number_of(root, DCM_NumberOfFrames, 1) > 1 || uid.empty()) return Verdict::kClip;
  const auto [entry, is_new] = index_.try_emplace(uid, series_.size());
  if (is_new) series_.emplace_back();
  Series& series = series_[entry->second];
  SeriesKeys keys = read_keys(root);
  const auto [first, last] = series.of_uid.equal_range(keys.uid);
  for (auto other = first; other != last; ++other) {
    if (!keys.is_copy_of(series.keys[other->second])) continue;
    reason = concat("it is a copy of '", series.items[other->second].name,
                    "': both are the image (SOPInstanceUID) ", keys.uid);
    return Verdict::kNoImage;
  }
  if (!keys.uid.empty()) series.of_uid.emplace(keys.uid, series.items.size());
  series.items.push_back(item);
  series.keys.push_back(std::move(keys));
  return Verdict::kTaken;
}

std::string SeriesList::name(const Series& series) {
  const bool by_study = grouping_ == DicomGrouping::kStudy;
  const auto folder = std::filesystem::path(series.items.front().name).parent_path();
  const std::string& number = series.keys.front().series_number;
  const std::string plain = by_study || number.empty() ? "" : concat("-", number);
  const std::string stem = (folder / concat(by_study ? "study" : "series", plain)).generic_string();
  const int use = ++uses_[stem];
  return use == 1 && !by_study ? stem : concat(stem, "-", use);
}

std::vector<ExamSpec> SeriesList::take_exams() {
  std::vector<ExamSpec> exams;
  for (Series& series : series_) {
    ExamSpec exam;
    exam.id = name(series);
    order_series(series.items, std::move(series.keys), grouping_ == DicomGrouping::kSeries);
    exam.items = std::move(series.items);
    exams.push_back(std::move(exam));
  }
  series_.clear();
  index_.clear();
  return exams;
}

}  // namespace coldframe::frames::dicom
