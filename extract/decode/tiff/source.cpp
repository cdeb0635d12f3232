#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"
#include "extract/decode/image/still_formats.h"
#include "extract/decode/source.h"
#include "extract/decode/tiff/file.h"

namespace coldframe::frames {

// Which page of a stack shows which channel, slice and time, as its first page describes it.

struct StackFrame {
  std::int64_t page = 0;       // of the file, counted from 0; may lie after the last one
  std::size_t channel = 0;     // index into StackAxes::channels
  double time_s = kNotStated;  // since the first frame
};

struct StackAxes {
  std::vector<StackFrame> frames;  // by time, within a time by slice, within a slice by channel
  std::vector<std::string> channels = {""};  // their names, which differ
};

// How many images ImageJ says that the file holds, 0 where the text is not ImageJ's. It writes
// stacks of more than 4 GB after one directory.
std::int64_t imagej_images(std::string_view description);

// True where the text states several channels; cheap.
bool names_channels(std::string_view description);

// `description`: the tag ImageDescription of the first page, of ImageJ, OME-XML or tifffile;
// `pages`: how many there are, reductions and masks among them; `samples`: of a pixel; `is_cut`:
// more pages cannot be read. Empty where the text says nothing of axes. DataError, without the
// file's name: a description of channels that does not fit the pages, of several images, or that
// lies elsewhere. Sources: "ImageJ TIFF" in ImageJ's TiffEncoder and
// FileSaver.getDescriptionString; the OME data model 2016-06, elements Pixels, Channel, TiffData
// and Plane.
std::optional<StackAxes> read_axes(std::string_view description, std::int64_t pages, int samples,
                                   bool is_cut);

namespace {

constexpr std::int64_t kMaxPlanes = std::int64_t{1} << 20;

// Of a unit of time as ImageJ or OME-XML write it; NaN for another word.
double seconds_per(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"s", 1},        {"sec", 1},     {"second", 1},   {"seconds", 1}, {"ms", 1e-3},
      {"msec", 1e-3},  {"µs", 1e-6},   {"us", 1e-6},    {"usec", 1e-6}, {"ns", 1e-9},
      {"min", 60},     {"minute", 60}, {"minutes", 60}, {"h", 3600},    {"hour", 3600},
      {"hours", 3600}, {"d", 86400},   {"day", 86400},  {"days", 86400}};
  const auto* found = std::ranges::find(kUnits, unit, [](const auto& each) { return each.first; });
  return found == std::end(kUnits) ? kNotStated : found->second;
}

// "channel0", "channel1", … unless all have names, and those differ.
std::vector<std::string> distinct_names(std::vector<std::string> names) {
  const std::set<std::string> seen(names.begin(), names.end());
  if (seen.size() == names.size() && (names.size() == 1 || !seen.contains(""))) return names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = concat("channel", i);
  return names;
}

// Times of one interval; unknown where it is.
double nth_time(std::int64_t n, double interval) {
  return interval > 0 && std::isfinite(interval) ? static_cast<double>(n) * interval : kNotStated;
}

// ---- ImageJ: lines "key=value" behind "ImageJ=version". Pages lie channel by channel within a
// slice, slice by slice within a time.

class ImagejText {
 public:
  explicit ImagejText(std::string_view text) {
    if (!text.starts_with("ImageJ=")) return;
    for (const std::string& line : split(std::string(text.substr(0, text.find('\0'))), '\n')) {
      const auto equals = line.find('=');
      if (equals != std::string::npos)
        values_[line.substr(0, equals)] = trim(line.substr(equals + 1));
    }
  }

  bool is_there() const { return !values_.empty(); }
  std::string word(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? "" : found->second;
  }
  std::int64_t count(const std::string& key, std::int64_t otherwise = 1) const {
    std::int64_t value = 0;
    return parse_int(word(key), value) && value >= 1 && value <= kMaxPlanes ? value : otherwise;
  }
  double number(const std::string& key) const {
    double value = 0;
    return parse_double(word(key), value) ? value : kNotStated;
  }

 private:
  std::map<std::string, std::string> values_;
};

// Films opened in ImageJ become slices that keep their interval.
double imagej_interval(const ImagejText& text) {
  const std::string unit = text.word("tunit");
  return text.number("finterval") * (unit.empty() ? 1 : seconds_per(unit));
}

std::optional<StackAxes> imagej_axes(const ImagejText& text, std::int64_t pages, bool is_cut) {
  const std::int64_t channels = text.count("channels"), images = text.count("images", pages);
  std::int64_t slices = text.count("slices"), times = text.count("frames");
  if (images % (channels * slices) == 0 && times == 1) times = images / (channels * slices);
  if (times == 1 && text.word("spacing").empty()) std::swap(slices, times);
  const bool fits =
      channels * slices * times == images && (is_cut ? pages <= images : pages == images);
  if (!fits && channels == 1) return std::nullopt;
  if (!fits)
    throw DataError(concat("its description states ", channels, " channels of ", slices,
                           " slices at ", plural(times, "time"), " in ", images,
                           " images, and it has ", plural(pages, "page"),
                           ": which page shows what is not known"));
  StackAxes axes;
  axes.channels = distinct_names(std::vector<std::string>(static_cast<std::size_t>(channels)));
  for (std::int64_t page = 0; page < images; ++page)
    axes.frames.push_back(
        {page, static_cast<std::size_t>(page % channels),
         times == 1 ? kNotStated : nth_time(page / (channels * slices), imagej_interval(text))});
  return axes;
}

// ---- tifffile: JSON with the pages' shape, and with their axes where somebody stated them.

std::optional<Json> tifffile_json(std::string_view description) {
  if (!description.starts_with("{\"shape\": [")) return std::nullopt;
  try {
    Json json = parse_json(description.substr(0, description.find('\0')), "its description");
    const bool has_axes = json.is_object() && json.contains("axes") && json["axes"].is_string() &&
                          json["shape"].is_array();
    return has_axes ? std::optional(std::move(json)) : std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Pages are of all axes but Y, X and those within a pixel, the last one fastest. Empty where they
// are not.
std::optional<StackAxes> pages_by_axes(const std::string& axes, const std::vector<Json>& shape,
                                       std::int64_t pages) {
  const std::size_t outer = axes.find_first_of("YX");
  if (axes.size() != shape.size() || outer == std::string::npos) return std::nullopt;
  std::int64_t all = 1;
  std::map<char, std::int64_t> size{{'T', 1}, {'Z', 1}, {'C', 1}}, step;  // in pages
  for (std::size_t i = outer; i-- > 0;) {
    const std::int64_t length = shape[i].is_number_integer() ? shape[i].get<std::int64_t>() : 0;
    if (length < 1 || length > pages / all || step.contains(axes[i]) || !size.contains(axes[i]))
      return std::nullopt;
    size[axes[i]] = length;
    step[axes[i]] = all;
    all *= length;
  }
  if (all != pages) return std::nullopt;
  StackAxes found;
  found.channels = distinct_names(std::vector<std::string>(static_cast<std::size_t>(size['C'])));
  for (std::int64_t t = 0; t < size['T']; ++t)
    for (std::int64_t z = 0; z < size['Z']; ++z)
      for (std::int64_t c = 0; c < size['C']; ++c)
        found.frames.push_back({t * step['T'] + z * step['Z'] + c * step['C'],
                                static_cast<std::size_t>(c), kNotStated});
  return found;
}

std::optional<StackAxes> tifffile_axes(const Json& json, std::int64_t pages) {
  const auto axes = json["axes"].get<std::string>();
  auto found = pages_by_axes(axes, json["shape"].get<std::vector<Json>>(), pages);
  if (!found && axes.find('C') != std::string::npos)
    throw DataError(concat("its description states the axes ", axes, " of shape ",
                           json["shape"].dump(), ", and it has ", plural(pages, "page"),
                           ": which page shows what is not known"));
  return found;
}

// ---- OME-XML

struct XmlTag {
  std::string name;  // without the prefix of its namespace
  bool closes = false;
  std::map<std::string, std::string> attributes;
  std::string text;  // that follows it, up to the next tag

  std::string word(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? "" : found->second;
  }
  std::optional<std::int64_t> count(const std::string& key) const {
    std::int64_t value = 0;
    if (!parse_int(word(key), value) || value < 0 || value > kMaxPlanes) return std::nullopt;
    return value;
  }
  std::optional<double> seconds(const std::string& key) const {
    double value = 0;
    if (!parse_double(word(key), value)) return std::nullopt;
    const std::string unit = word(key + "Unit");
    return value * (unit.empty() ? 1 : seconds_per(unit));
  }
};

std::string without_entities(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string plain;
  while (!text.empty()) {
    const auto* entity = std::ranges::find_if(
        kEntities, [&](const auto& each) { return text.starts_with(each.first); });
    plain += entity == std::end(kEntities) ? text.front() : entity->second;
    text.remove_prefix(entity == std::end(kEntities) ? 1 : entity->first.size());
  }
  return plain;
}

// The tags of a text one after another: as much of XML as a description has.
class XmlScanner {
 public:
  explicit XmlScanner(std::string_view text) : left_(text) {}

  bool next(XmlTag& tag) {
    while (skip_to('<')) {
      if (left_.starts_with("!--")) {
        const auto end = left_.find("-->");
        left_.remove_prefix(end == std::string_view::npos ? left_.size() : end + 3);
        continue;
      }
      const auto end = left_.find('>');
      if (end == std::string_view::npos) return false;
      const std::string_view inside = left_.substr(0, end);
      left_.remove_prefix(end + 1);
      if (inside.empty() || inside.front() == '?' || inside.front() == '!') continue;
      tag = parse(inside);
      tag.text = trim(without_entities(left_.substr(0, left_.find('<'))));
      return true;
    }
    return false;
  }

 private:
  bool skip_to(char sign) {
    const auto at = left_.find(sign);
    left_.remove_prefix(at == std::string_view::npos ? left_.size() : at + 1);
    return at != std::string_view::npos;
  }

  static XmlTag parse(std::string_view inside) {
    constexpr std::string_view kSpace = " \t\r\n/";
    XmlTag tag;
    tag.closes = inside.front() == '/';
    if (tag.closes) inside.remove_prefix(1);
    const std::string_view name = inside.substr(0, inside.find_first_of(kSpace));
    tag.name = name.substr(name.find(':') + 1);
    inside.remove_prefix(name.size());
    for (;;) {
      const auto begin = inside.find_first_not_of(kSpace), equals = inside.find('=');
      if (begin == std::string_view::npos || equals == std::string_view::npos || equals < begin)
        break;
      const std::string key = trim(std::string(inside.substr(begin, equals - begin)));
      const auto open = inside.find_first_of("\"'", equals);
      if (open == std::string_view::npos) break;
      const auto close = inside.find(inside[open], open + 1);
      if (close == std::string_view::npos) break;
      tag.attributes[key] = without_entities(inside.substr(open + 1, close - open - 1));
      inside.remove_prefix(close + 1);
    }
    return tag;
  }

  std::string_view left_;
};

// One image of the file ("series" elsewhere).
class OmeImage {
 public:
  void set_pixels(const XmlTag& tag, int samples) {
    order_ = tag.word("DimensionOrder");
    const std::int64_t channels = tag.count("SizeC").value_or(1);
    // Colours that lie within a page are no channels of pages.
    const std::int64_t within = samples > 1 && channels % samples == 0 ? samples : 1;
    size_ = {std::max<std::int64_t>(1, channels / within),
             std::max<std::int64_t>(1, tag.count("SizeZ").value_or(1)),
             std::max<std::int64_t>(1, tag.count("SizeT").value_or(1))};
    constexpr std::string_view kAxes = "CZT";
    bool known = order_.size() == 5 && order_.starts_with("XY");
    for (const char axis : kAxes) known = known && order_.find(axis, 2) != std::string::npos;
    if (!known || size_[0] > kMaxPlanes / size_[1] || size_[0] * size_[1] > kMaxPlanes / size_[2])
      throw DataError(concat("its OME-XML is damaged: the order '", order_, "' of ", size_[0],
                             " channels, ", size_[1], " slices and ", size_[2], " times"));
    interval_ = tag.seconds("TimeIncrement").value_or(kNotStated);
  }

  void add_channel(const XmlTag& tag) { names_.push_back(tag.word("Name")); }

  void add_delta(const XmlTag& tag) {
    const auto time = tag.count("TheT");
    const auto seconds = tag.seconds("DeltaT");
    if (!time || !seconds) return;
    const auto [place, is_new] = deltas_.try_emplace(*time, *seconds);
    place->second = std::min(place->second, *seconds);
  }

  // Planes from the one that the tag names on, as many as it says, in pages from its IFD on.
  // Returns their number.
  std::int64_t add_planes(const XmlTag& tag) {
    const auto page = tag.count("IFD"), number = tag.count("PlaneCount");
    const std::array<std::int64_t, 3> first{tag.count("FirstC").value_or(0),
                                            tag.count("FirstZ").value_or(0),
                                            tag.count("FirstT").value_or(0)};
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (first[axis] >= size_[axis]) return 0;
    const std::int64_t begin = linear(first), all = size_[0] * size_[1] * size_[2];
    const std::int64_t count = std::clamp<std::int64_t>(number ? *number
                                                        : page ? 1
                                                               : all - begin,
                                                        0, all - begin);
    if (count > kMaxPlanes) throw DataError("its OME-XML has more planes than any file");
    for (std::int64_t i = 0; i < count; ++i) planes_[place(begin + i)] = page.value_or(0) + i;
    return count;
  }

  bool has_planes() const { return !planes_.empty(); }

  // Channels that none of the planes is of, in other files perhaps, do not count.
  StackAxes axes() const {
    std::set<std::int64_t> present;
    for (const auto& [at, page] : planes_) present.insert(at[2]);
    StackAxes axes;
    std::vector<std::string> names;
    for (const std::int64_t channel : present) {
      const auto i = static_cast<std::size_t>(channel);
      names.push_back(present.size() > 1 && i < names_.size() ? names_[i] : "");
    }
    axes.channels = distinct_names(std::move(names));
    const std::int64_t start = planes_.begin()->first[0];
    std::set<std::int64_t> pages;
    for (const auto& [at, page] : planes_) {
      if (!pages.insert(page).second)
        throw DataError(concat("its OME-XML places two planes in page ", page,
                               "; save it anew, each of its files with its own UUID"));
      axes.frames.push_back(
          {page, static_cast<std::size_t>(std::distance(present.begin(), present.find(at[2]))),
           size_[2] == 1 ? kNotStated : time_of(at[0]) - time_of(start)});
    }
    return axes;
  }

 private:
  using PlaneIndex = std::array<std::int64_t, 3>;  // time, slice, channel

  // The planes' times where all have one, else the interval's.
  double time_of(std::int64_t time) const {
    if (static_cast<std::int64_t>(deltas_.size()) < size_[2]) return nth_time(time, interval_);
    const auto found = deltas_.find(time);
    return found == deltas_.end() ? kNotStated : found->second;
  }

  std::size_t axis_at(std::size_t position) const {  // the fastest at 0: index into size_
    return std::string_view("CZT").find(order_[position + 2]);
  }
  std::int64_t linear(const std::array<std::int64_t, 3>& at) const {
    std::int64_t index = 0;
    for (std::size_t position = 3; position-- > 0;)
      index = index * size_[axis_at(position)] + at[axis_at(position)];
    return index;
  }
  PlaneIndex place(std::int64_t index) const {
    std::array<std::int64_t, 3> at{};
    for (std::size_t position = 0; position < 3; ++position) {
      at[axis_at(position)] = index % size_[axis_at(position)];
      index /= size_[axis_at(position)];
    }
    return {at[2], at[1], at[0]};
  }

  std::string order_;
  std::array<std::int64_t, 3> size_{1, 1, 1};  // channels, slices, times
  double interval_ = kNotStated;
  std::vector<std::string> names_;
  std::map<std::int64_t, double> deltas_;      // seconds of each time's earliest plane
  std::map<PlaneIndex, std::int64_t> planes_;  // their pages
};

class OmeReader {
 public:
  OmeReader(std::int64_t pages, int samples) : pages_(pages), samples_(samples) {}

  std::optional<StackAxes> read(std::string_view text) {
    XmlScanner scanner(text);
    for (XmlTag tag; scanner.next(tag);) add(tag);
    if (pending_) take_planes();
    std::vector<OmeImage*> here;
    for (OmeImage& image : images_)
      if (image.has_planes()) here.push_back(&image);
    if (here.size() > 1)
      throw DataError(concat("its OME-XML describes ", here.size(),
                             " images in it (positions, or "
                             "an image and its overview); save each as a file of its own"));
    if (here.empty() && !elsewhere_.empty() && pages_ > 1)
      throw DataError(concat("which of its pages are channels and which are times stands in '",
                             elsewhere_, "', which is not read; save it with its own OME-XML"));
    if (here.empty()) return std::nullopt;
    return here.front()->axes();
  }

 private:
  void add(const XmlTag& tag) {
    if (pending_ && tag.name == "UUID" && !tag.closes) {
      pending_here_ = tag.text.empty() || own_.empty() || tag.text == own_;
    } else if (pending_) {
      take_planes();
    }
    if (tag.closes) {
      if (tag.name == "Pixels" && in_pixels_) end_pixels();
      return;
    }
    if (tag.name == "OME") own_ = tag.word("UUID");
    if (tag.name == "BinaryOnly") elsewhere_ = tag.word("MetadataFile");
    if (tag.name == "Pixels") {
      images_.emplace_back().set_pixels(tag, samples_);
      in_pixels_ = true;
      names_planes_ = false;
    }
    if (!in_pixels_) return;
    if (tag.name == "Channel") images_.back().add_channel(tag);
    if (tag.name == "Plane") images_.back().add_delta(tag);
    if (tag.name == "TiffData") {
      pending_ = tag;
      pending_here_ = names_planes_ = true;
    }
  }

  // Of a file of its own that it names, perhaps: then they are none of this one's.
  void take_planes() {
    if (pending_here_) count_planes(images_.back().add_planes(*pending_));
    pending_.reset();
  }

  void end_pixels() {
    if (!names_planes_) count_planes(images_.back().add_planes({}));
    in_pixels_ = false;
  }

  // A description of a few bytes may ask for planes without end.
  void count_planes(std::int64_t number) {
    planes_ += number;
    if (planes_ > kMaxPlanes) throw DataError("its OME-XML has more planes than any file");
  }

  std::int64_t pages_, planes_ = 0;  // that the file has; that are described
  int samples_;
  std::vector<OmeImage> images_;
  std::string own_, elsewhere_;
  bool in_pixels_ = false, names_planes_ = false, pending_here_ = false;
  std::optional<XmlTag> pending_;  // a TiffData, whose UUID may follow
};

bool is_ome(std::string_view text) {
  return text.substr(0, 4096).find("openmicroscopy.org/Schemas/OME") != std::string_view::npos;
}

}  // namespace

std::int64_t imagej_images(std::string_view description) {
  return ImagejText(description).count("images", 0);
}

bool names_channels(std::string_view description) {
  if (ImagejText(description).count("channels") > 1) return true;
  if (const auto json = tifffile_json(description))
    return (*json)["axes"].get<std::string>().find('C') != std::string::npos;
  if (!is_ome(description)) return false;
  XmlScanner scanner(description);
  for (XmlTag tag; scanner.next(tag);)
    if (tag.name == "Pixels" && tag.count("SizeC").value_or(1) > 1) return true;
  return false;
}

std::optional<StackAxes> read_axes(std::string_view description, std::int64_t pages, int samples,
                                   bool is_cut) {
  if (const ImagejText text(description); text.is_there()) return imagej_axes(text, pages, is_cut);
  if (const auto json = tifffile_json(description)) return tifffile_axes(*json, pages);
  if (!is_ome(description)) return std::nullopt;
  return OmeReader(pages, samples).read(description.substr(0, description.find('\0')));
}

// TIFF images, and TIFF stacks as clips: each page is a frame.

namespace {

// More images of a stack than these may not be cut off.
constexpr std::int64_t kMaxLostImages = 1 << 16;

class TiffSource : public FileSource {
 public:
  TiffSource(const SourceFile& of, const ReaderOptions& options)
      : FileSource("image", of), scale_{options.window} {
    guarded([&] {
      TiffFile file(file_.open());
      find_frames(file);
      scale_.depth = depth_of_first(file);
    });
  }

  std::int64_t frame_count() override {
    return static_cast<std::int64_t>(frames_.size() + (has_lost_tail() ? 1 : 0));
  }
  std::string lost_tail() const override {
    return has_lost_tail() ? concat(name_, ": ", tail_fault()) : "";
  }
  double time_s(std::int64_t index) const override {
    if (frames_.size() == 1) return 0.0;
    const auto at = static_cast<std::size_t>(index);
    return at < frames_.size() ? frames_[at].time_s : kNotStated;
  }
  std::size_t streams() const override { return channels_.size(); }
  std::vector<std::string> notes() const override {
    if (left_out_ == 0) return {};
    return {"pages that its OME-XML does not name are left out"};
  }
  // Of every frame.
  std::vector<ChannelFrame> frame_facts() const {
    std::vector<ChannelFrame> facts;
    for (const StackFrame& frame : frames_)
      facts.push_back({channels_[frame.channel], frame.time_s});
    return facts;
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override { return scale_.wants_range(); }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  bool holds_floats() const override { return scale_.depth == Depth::kWide; }

 private:
  void find_frames(TiffFile& file);
  void find_pages(TiffFile& file, std::int64_t stated);
  bool has_lost_tail() const { return !fault_.empty() && !is_described_; }
  std::string tail_fault() const {
    return concat(fault_, "; ", plural(frames_.size(), "page"),
                  " before that can be read, how many are lost is not known");
  }
  TiffPage open_page(TiffFile& file, const StackFrame& frame) const;
  Depth depth_of_first(TiffFile& file) const;
  void decode(TiffFile& file, Frame& frame) const;

  ValueScale scale_;
  std::vector<TiffPlace> pages_;
  std::vector<bool> is_frame_;      // of pages_
  std::string fault_;               // of what lies after them
  std::vector<StackFrame> frames_;  // in pages_, or after them
  std::vector<std::string> channels_ = {""};
  bool is_described_ = false;  // the first page tells of all frames, also of those that are lost
  std::int64_t left_out_ = 0;  // pages that it tells nothing of
};

// Of an ImageJ stack after one directory, or one for each directory.
void TiffSource::find_pages(TiffFile& file, std::int64_t stated) {
  const std::int64_t images = file.images_behind(stated);
  for (const TiffDirectory& directory : file.directories(fault_)) {
    pages_.push_back({directory.offset, 0});
    is_frame_.push_back(directory.is_frame);
  }
  for (std::int64_t image = 1; image < images; ++image) {
    pages_.push_back({pages_.front().directory, image});
    is_frame_.push_back(true);
  }
  if (images == 1 || images == stated) return;
  fault_ = concat("it is truncated: its description states ", plural(stated, "image"),
                  ", and it holds ", images, ", the last one in part perhaps");
  if (stated - images > kMaxLostImages) throw DataError(fault_);
}

void TiffSource::find_frames(TiffFile& file) {
  const std::string description = file.description();
  const int samples = file.samples();
  find_pages(file, imagej_images(description));
  const auto pages = static_cast<std::int64_t>(pages_.size());
  std::optional<StackAxes> axes;
  if (pages > 1 || !fault_.empty()) axes = read_axes(description, pages, samples, !fault_.empty());
  if (axes) {
    frames_ = std::move(axes->frames);
    channels_ = std::move(axes->channels);
    is_described_ = true;
    for (const StackFrame& frame : frames_)
      if (frame.page < pages) is_frame_[static_cast<std::size_t>(frame.page)] = false;
    left_out_ = std::ranges::count(is_frame_, true);
    return;
  }
  for (std::int64_t page = 0; page < pages; ++page)
    if (is_frame_[static_cast<std::size_t>(page)]) frames_.push_back({page});
  if (frames_.empty()) frames_.push_back({0});  // a thumbnail, and nothing else
}

TiffPage TiffSource::open_page(TiffFile& file, const StackFrame& frame) const {
  if (frame.page < static_cast<std::int64_t>(pages_.size()))
    return file.open_page(pages_[static_cast<std::size_t>(frame.page)]);
  throw DataError(!fault_.empty() ? fault_
                                  : concat("its OME-XML places this frame in page ", frame.page,
                                           ", and it has ", plural(pages_.size(), "page"),
                                           " (they count from 0)"));
}

// Passes over pages that cannot be opened, unless none can.
Depth TiffSource::depth_of_first(TiffFile& file) const {
  for (std::size_t frame = 0; frame + 1 < frames_.size(); ++frame) {
    try {
      return open_page(file, frames_[frame]).depth;
    } catch (const DataError&) {
    }
  }
  return open_page(file, frames_.back()).depth;
}

void TiffSource::decode(TiffFile& file, Frame& frame) const {
  if (frame.index >= static_cast<std::int64_t>(frames_.size())) throw DataError(tail_fault());
  const TiffPage page = open_page(file, frames_[static_cast<std::size_t>(frame.index)]);
  if (page.depth != scale_.depth) {
    throw DataError(concat("page ", frame.index, " has another depth than the first one"));
  }
  const auto width = static_cast<std::size_t>(page.width);
  Image image{static_cast<int>(page.width), static_cast<int>(page.height),
              std::vector<std::uint8_t>(width * static_cast<std::size_t>(page.height) * 3)};
  const ValueRange range = scale_.range();
  std::uint8_t* to = image.rgb.data();
  FiniteFraction finite;
  file.read_rows([&](std::int64_t, std::span<const double> row) {
    for (const double value : row) finite.add(value);
    const std::size_t channels = static_cast<std::size_t>(page.channels);
    for (std::size_t i = 0; i < 3 * width; ++i) {
      *to++ = to_level(row[channels == 3 ? i : i / 3], range);
    }
  });
  frame.pixels = upright(std::move(image), page.orientation);
  frame.finite = finite.share();
}

void TiffSource::read(std::span<const std::int64_t> indices,
                      const std::function<void(Frame&&)>& sink) {
  std::unique_ptr<TiffFile> file;
  for (const std::int64_t index : indices) {
    Frame frame{index, time_s(index), {}};
    guarded([&] {
      if (!file) file = std::make_unique<TiffFile>(file_.open());
      decode(*file, frame);
    });
    sink(std::move(frame));
  }
}

void TiffSource::survey(ValueSurvey& survey) {
  std::unique_ptr<TiffFile> file;
  for (const StackFrame& frame : frames_) {
    ValueSurvey own;
    try {
      if (!file) file = std::make_unique<TiffFile>(file_.open());
      open_page(*file, frame);
      file->read_rows([&](std::int64_t, std::span<const double> row) {
        for (const double value : row) own.add(value);
      });
      survey.add(own);
    } catch (const DataError&) {  // read() says why
      file.reset();
    }
  }
}

bool detect_tiff(const SourceFile& file) {
  using std::string_view_literals::operator""sv;
  constexpr std::array kSignatures{"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv};
  return std::ranges::any_of(kSignatures, [head = file.head()](std::string_view signature) {
    return head.starts_with(signature);
  });
}

bool detect_stack(const SourceFile& file) {
  if (!detect_tiff(file)) return false;
  try {
    TiffFile tiff(file.open());
    return tiff.images_behind(imagej_images(tiff.description())) > 1 || tiff.has_several_pages();
  } catch (const DataError&) {
    return false;  // an image, whose reader says what is wrong
  }
}

SourceFacts facts_of_stack(const SourceFile& file, const ReaderOptions& options) {
  SourceFacts facts;
  if (!names_channels(TiffFile(file.open()).description())) return facts;
  const TiffSource stack(file, options);
  if (stack.streams() > 1) facts.frames = stack.frame_facts();
  return facts;
}

}  // namespace

extern const SourceKind kStackKind;
constinit const SourceKind kStackKind{.name = "stack",
                                      .contents = "TIFF stacks",
                                      .detect = detect_stack,
                                      .open = open_as<TiffSource>,
                                      .facts = facts_of_stack};

// Files of one page, which are images.
extern const SourceKind kPageKind;
constinit const SourceKind kPageKind{.name = "image",
                                     .contents = "TIFF",
                                     .is_clip = false,
                                     .suffixes = ".tif .tiff",
                                     .detect = detect_tiff,
                                     .open = open_as<TiffSource>};

}  // namespace coldframe::frames
