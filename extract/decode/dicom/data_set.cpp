#include "extract/decode/dicom/data_set.h"

#include <dcmtk/dcmdata/dcerror.h>
#include <dcmtk/dcmdata/dcsequen.h>
#include <dcmtk/dcmdata/dcxfer.h>
#include <dcmtk/oflog/oflog.h>
#include <zlib.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/files/file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {

namespace {

constexpr std::size_t kBufferBytes = 16384;
constexpr std::uint64_t kMaxStackBytes = 512 * 1024;
constexpr std::uint64_t kMaxHeaderBytes = 64ull << 20;

std::uintptr_t stack_address() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

class BytesStreamFactory : public DcmInputStreamFactory {
 public:
  BytesStreamFactory(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
      : bytes_(std::move(bytes)), offset_(offset) {}
  DcmInputStream* create() const override { return new BytesStream(bytes_, offset_); }
  DcmInputStreamFactory* clone() const override { return new BytesStreamFactory(*this); }
  DcmInputStreamFactoryType ident() const override { return DFT_DcmInputFileStreamFactory; }

 private:
  std::shared_ptr<const ByteSource> bytes_;
  std::uint64_t offset_;
};

}  // namespace

BytesProducer::BytesProducer(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
    : bytes_(std::move(bytes)),
      at_(std::min(offset, bytes_->size())),
      stack_start_(stack_address()),
      status_(EC_Normal) {}

void BytesProducer::require_bounds(std::uint64_t count) {
  read_ += count;
  const std::uintptr_t here = stack_address();
  const auto depth = here > stack_start_ ? here - stack_start_ : stack_start_ - here;
  if (depth > kMaxStackBytes || read_ > kMaxHeaderBytes) status_ = EC_InvalidStream;
}

std::size_t BytesProducer::copy(std::span<std::byte> out) {
  if (out.size() >= kBufferBytes) return bytes_->read_some(at_, out);
  if (at_ < buffer_start_ || at_ + out.size() > buffer_start_ + buffer_.size()) {
    buffer_start_ = at_;
    buffer_.resize(kBufferBytes);
    buffer_.resize(bytes_->read_some(at_, buffer_));
  }
  const std::uint64_t from = at_ - buffer_start_;
  const std::size_t count = std::min<std::size_t>(out.size(), buffer_.size() - from);
  std::memcpy(out.data(), buffer_.data() + from, count);
  return count;
}

offile_off_t BytesProducer::read(void* buffer, offile_off_t count) {
  if (status_.bad() || buffer == nullptr || count <= 0) return 0;
  require_bounds(static_cast<std::uint64_t>(count));
  if (status_.bad()) return 0;
  const std::size_t done = copy({static_cast<std::byte*>(buffer), static_cast<std::size_t>(count)});
  at_ += done;
  return static_cast<offile_off_t>(done);
}

offile_off_t BytesProducer::skip(offile_off_t count) {
  if (status_.bad() || count <= 0) return 0;
  const offile_off_t done = std::min(count, avail());
  at_ += static_cast<std::uint64_t>(done);
  return done;
}

void BytesProducer::putback(offile_off_t count) {
  if (status_.bad() || count < 0) return;
  if (static_cast<std::uint64_t>(count) > at_) {
    status_ = EC_PutbackFailed;
  } else {
    at_ -= static_cast<std::uint64_t>(count);
  }
}

DcmInputStreamFactory* BytesStream::newFactory() const {
  return new BytesStreamFactory(producer_.bytes(), producer_.at());
}

namespace {

constexpr std::uint64_t kPreambleBytes = 132;
constexpr std::uint64_t kMaxInflatedBytes = 1ull << 31;
constexpr std::string_view kDeflated = "1.2.840.10008.1.2.1.99";

// Ends zlib's state on every way out.
struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw DataError("zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

// Decompresses the raw deflate stream (RFC 1951) that starts at `offset` (PS3.5 A.5). DataError
// when it is damaged, or holds more than `limit` bytes.
std::string inflate(const ByteSource& bytes, std::uint64_t offset, std::uint64_t limit) {
  Inflater inflater;
  std::array<Bytef, 65536> in{}, out{};
  std::string content;
  int status = Z_OK;
  while (status == Z_OK) {
    if (inflater.stream.avail_in == 0) {
      const std::size_t count = bytes.read_some(offset, std::as_writable_bytes(std::span(in)));
      offset += count;
      inflater.stream.next_in = in.data();
      inflater.stream.avail_in = static_cast<uInt>(count);
      if (count == 0) throw DataError("its deflated data set is truncated");
    }
    inflater.stream.next_out = out.data();
    inflater.stream.avail_out = static_cast<uInt>(out.size());
    status = ::inflate(&inflater.stream, Z_NO_FLUSH);
    content.append(reinterpret_cast<const char*>(out.data()),
                   out.size() - inflater.stream.avail_out);
    if (content.size() > limit) {
      throw DataError(concat("its deflated data set has more than ", human_bytes(limit)));
    }
  }
  if (status != Z_STREAM_END) throw DataError("its deflated data set is damaged");
  return content;
}

struct KnownSyntax {
  std::string_view uid;
  Coding coding;
};
constexpr std::array<KnownSyntax, 17> kCompressed{{
    {"1.2.840.10008.1.2.4.50", Coding::kJpeg},       // baseline, 8 bits
    {"1.2.840.10008.1.2.4.51", Coding::kJpeg},       // extended, 12 bits
    {"1.2.840.10008.1.2.4.53", Coding::kJpeg},       // spectral selection (retired)
    {"1.2.840.10008.1.2.4.55", Coding::kJpeg},       // progressive (retired)
    {"1.2.840.10008.1.2.4.57", Coding::kJpeg},       // lossless, process 14
    {"1.2.840.10008.1.2.4.70", Coding::kJpeg},       // lossless, first-order prediction
    {"1.2.840.10008.1.2.4.80", Coding::kJpegLs},     // lossless
    {"1.2.840.10008.1.2.4.81", Coding::kJpegLs},     // near-lossless
    {"1.2.840.10008.1.2.4.90", Coding::kJpeg2000},   // lossless
    {"1.2.840.10008.1.2.4.91", Coding::kJpeg2000},   // any
    {"1.2.840.10008.1.2.4.92", Coding::kJpeg2000},   // part 2, lossless
    {"1.2.840.10008.1.2.4.93", Coding::kJpeg2000},   // part 2, any
    {"1.2.840.10008.1.2.4.201", Coding::kJpeg2000},  // High-Throughput, lossless
    {"1.2.840.10008.1.2.4.202", Coding::kJpeg2000},  // High-Throughput, lossless, by resolution
    {"1.2.840.10008.1.2.4.203", Coding::kJpeg2000},  // High-Throughput, any
    {"1.2.840.10008.1.2.5", Coding::kRle},
    {"1.2.840.10008.1.2.1.98", Coding::kNative},  // encapsulated uncompressed
}};

// 1.2.840.10008.1.2.4.100 to .108, and the same with .1 behind, whose stream may be in fragments.
bool is_video(std::string_view uid) {
  constexpr std::string_view kBefore = "1.2.840.10008.1.2.4.10";
  if (uid.ends_with(".1")) uid.remove_suffix(2);
  return uid.starts_with(kBefore) && uid.size() == kBefore.size() + 1 && uid.back() >= '0' &&
         uid.back() <= '8';
}

TransferSyntax syntax_of(const std::string& uid) {
  TransferSyntax syntax{uid, Coding::kNative, false, uid == "1.2.840.10008.1.2.2"};
  if (uid == "1.2.840.10008.1.2" || uid == "1.2.840.10008.1.2.1" || uid == kDeflated ||
      syntax.big_endian) {
    return syntax;
  }
  syntax.encapsulated = true;
  syntax.coding = is_video(uid) ? Coding::kVideo : Coding::kUnsupported;
  for (const KnownSyntax& known : kCompressed) {
    if (known.uid == uid) syntax.coding = known.coding;
  }
  return syntax;
}

E_TransferSyntax parsed_as(const TransferSyntax& syntax) {
  if (syntax.big_endian) return EXS_BigEndianExplicit;
  return syntax.uid == "1.2.840.10008.1.2" ? EXS_LittleEndianImplicit : EXS_LittleEndianExplicit;
}

const char* name_of(E_TransferSyntax coded) {
  if (coded == EXS_BigEndianExplicit) return "explicit big endian";
  return coded == EXS_LittleEndianImplicit ? "implicit little endian" : "explicit little endian";
}

// PS3.5 table 6.2-1.
constexpr std::string_view kRepresentations =
    "AE AS AT CS DA DS DT FD FL IS LO LT OB OD OF OL OV OW PN SH SL SQ SS ST SV TM UC UI UL UN UR "
    "US UT UV";

bool has_representation(const ByteCursor<>& reader, std::uint64_t element) {
  const std::string_view vr = reader.text_at(element + 4, 2);
  return vr[0] >= 'A' && vr[1] >= 'A' && kRepresentations.find(vr) != std::string_view::npos;
}

// The coding by the data set's first element, which some meta headers contradict. Its group is 8,
// seldom another small one.
E_TransferSyntax coded_as(const ByteSource& bytes, std::uint64_t at, E_TransferSyntax called) {
  const std::string head = bytes.read(at, std::min<std::uint64_t>(8, bytes.size() - at));
  if (head.size() < 8) return called;
  const ByteCursor little(head, std::endian::little), big(head, std::endian::big);
  if (!has_representation(little, 0))
    return called == EXS_BigEndianExplicit ? called : EXS_LittleEndianImplicit;
  if (big.u16(0) == 8) return EXS_BigEndianExplicit;
  return called == EXS_BigEndianExplicit && little.u16(0) != 8 ? called : EXS_LittleEndianExplicit;
}

struct FileMeta {
  std::string syntax_uid;  // "" when the file has no group 2
  std::uint64_t end = 0;   // where the data set starts
};

// Group 2 is in explicit little endian (PS3.10 section 7.1), which some writers forget.
FileMeta read_meta(const ByteSource& bytes, std::uint64_t max_bytes) {
  const std::string head = bytes.read(0, std::min(bytes.size(), max_bytes));
  const ByteCursor reader(head, std::endian::little);
  FileMeta meta;
  if (reader.holds(0, "DICM")) meta.end = 4;
  if (reader.holds(kPreambleBytes - 4, "DICM")) meta.end = kPreambleBytes;
  while (meta.end + 8 <= reader.size() && reader.u16(meta.end) == 2) {
    const std::uint64_t element = reader.u16(meta.end + 2);
    const bool is_long = reader.holds(meta.end + 4, "OB") || reader.holds(meta.end + 4, "UN");
    const bool implicit = !has_representation(reader, meta.end);
    const std::uint64_t start = meta.end + (is_long ? 12 : 8);
    const std::uint64_t length = implicit  ? reader.u32(meta.end + 4)
                                 : is_long ? reader.u32(meta.end + 8)
                                           : reader.u16(meta.end + 6);
    reader.require(start, length);
    if (element == 0x10) {
      meta.syntax_uid = trim(head.substr(start, length));
      meta.syntax_uid.erase(std::find(meta.syntax_uid.begin(), meta.syntax_uid.end(), '\0'),
                            meta.syntax_uid.end());
    }
    meta.end = start + length;
  }
  return meta;
}

// Few files have long values there.
FileMeta read_meta(const ByteSource& bytes) {
  constexpr std::uint64_t kUsualBytes = 1 << 12, kMaxBytes = 1 << 20;
  try {
    const FileMeta meta = read_meta(bytes, kUsualBytes);
    if (meta.end + 8 <= kUsualBytes) return meta;
  } catch (const DataError&) {
  }
  return read_meta(bytes, kMaxBytes);
}

}  // namespace

bool looks_like_dicom(std::string_view head) {
  const ByteCursor reader(head, std::endian::little);
  if (reader.holds(kPreambleBytes - 4, "DICM") || reader.holds(0, "DICM")) return true;
  // Old files without a preamble start with group 2 or 8; then a VR or a small length.
  if (head.size() < 12) return false;
  if (head.starts_with(std::string_view("\0\x08\0", 3))) return has_representation(reader, 0);
  if (reader.u16(0) != 2 && reader.u16(0) != 8) return false;
  return reader.u16(2) <= 0x18 && (has_representation(reader, 0) || reader.u32(4) <= 64);
}

DataSet::DataSet(std::shared_ptr<const ByteSource> bytes) : bytes_(std::move(bytes)) {
  static std::once_flag once;
  std::call_once(once, [] { OFLog::configure(OFLogger::OFF_LOG_LEVEL); });
  std::string head(std::min<std::uint64_t>(bytes_->size(), kPreambleBytes), '\0');
  bytes_->read_some(0, std::as_writable_bytes(std::span(head)));
  if (!looks_like_dicom(head)) throw DataError("it is not a DICOM file");
  FileMeta meta = read_meta(*bytes_);
  E_TransferSyntax parsed = EXS_Unknown;
  if (!meta.syntax_uid.empty()) syntax_ = syntax_of(meta.syntax_uid);
  deflated_ = meta.syntax_uid == kDeflated;
  if (deflated_) {
    bytes_ = std::make_shared<MemoryBytes>(inflate(*bytes_, meta.end, kMaxInflatedBytes));
    meta.end = 0;
  }
  if (!meta.syntax_uid.empty()) {
    const E_TransferSyntax called = parsed_as(syntax_);
    parsed = coded_as(*bytes_, meta.end, called);
    if (parsed != called)
      notes_.push_back(
          concat("its meta header calls it ", name_of(called), ", it is ", name_of(parsed)));
    syntax_.big_endian = parsed == EXS_BigEndianExplicit;
  }
  BytesStream stream(bytes_, meta.end);
  root_ = std::make_unique<DcmDataset>();
  root_->transferInit();
  const OFCondition status = root_->readUntilTag(stream, parsed, EGL_noChange, DCM_MaxReadLength,
                                                 DcmTagKey(0x7FE0, 0x0008));
  if (status.bad()) {
    throw DataError(concat("its DICOM header cannot be read beyond byte ", stream.position(), ": ",
                           status.text()));
  }
  root_->transferEnd();
  if (meta.syntax_uid.empty()) {
    const DcmXfer found(root_->getOriginalXfer());
    syntax_ = syntax_of(found.getXferID());
    parsed = root_->getOriginalXfer();
  }
  find_pixels(stream.position(), parsed == EXS_LittleEndianImplicit);
}

// DCMTK stops after the header of the first element that it is not to read.
void DataSet::find_pixels(std::uint64_t position, bool implicit) {
  const std::uint64_t header = implicit ? 8 : 12;
  if (position < header) return;
  const std::string text = bytes_->read(position - header, header);
  const ByteCursor reader(text, syntax_.big_endian ? std::endian::big : std::endian::little);
  if (reader.u16(0) != 0x7FE0) return;
  switch (reader.u16(2)) {
    case 0x0008:
      pixels_.kind = PixelElement::Kind::kFloat;
      break;
    case 0x0009:
      pixels_.kind = PixelElement::Kind::kDouble;
      break;
    case 0x0010:
      pixels_.kind = PixelElement::Kind::kInteger;
      break;
    default:
      return;
  }
  pixels_.words = implicit || text.substr(4, 2) == "OW";
  pixels_.offset = position;
  pixels_.length = reader.u32(header - 4);
  pixels_.undefined_length = pixels_.length == 0xFFFFFFFFu;
}

std::string text_of(DcmItem& item, const DcmTagKey& tag) {
  OFString text;
  if (item.findAndGetOFString(tag, text).bad()) return "";
  return trim(std::string_view(text.c_str(), text.size()));
}

std::vector<double> numbers_of(DcmItem& item, const DcmTagKey& tag) {
  std::vector<double> numbers;
  OFString text;
  if (item.findAndGetOFStringArray(tag, text).bad() || text.empty()) return numbers;
  for (const std::string& part : split(std::string_view(text.c_str(), text.size()), '\\')) {
    double number = 0;
    if (parse_double(trim(part), number) && std::isfinite(number)) numbers.push_back(number);
  }
  return numbers;
}

double number_of(DcmItem& item, const DcmTagKey& tag, double otherwise) {
  const auto numbers = numbers_of(item, tag);
  return numbers.empty() ? otherwise : numbers.front();
}

DcmItem* item_of(DcmItem& item, const DcmTagKey& sequence, unsigned long index) {
  DcmSequenceOfItems* items = nullptr;
  if (item.findAndGetSequence(sequence, items).bad() || items == nullptr) return nullptr;
  return index < items->card() ? items->getItem(index) : nullptr;
}

unsigned long item_count(DcmItem& item, const DcmTagKey& sequence) {
  DcmSequenceOfItems* items = nullptr;
  return item.findAndGetSequence(sequence, items).good() && items != nullptr ? items->card() : 0;
}

FunctionalGroups::FunctionalGroups(DcmItem& root)
    : shared_(item_of(root, DCM_SharedFunctionalGroupsSequence)) {
  DcmSequenceOfItems* items = nullptr;
  if (root.findAndGetSequence(DCM_PerFrameFunctionalGroupsSequence, items).bad()) return;
  for (DcmObject* item = nullptr; (item = items->nextInContainer(item)) != nullptr;) {
    own_.push_back(dynamic_cast<DcmItem*>(item));
  }
}

DcmItem* FunctionalGroups::find(std::int64_t frame, const DcmTagKey& macro) const {
  const auto at = static_cast<std::size_t>(frame);
  DcmItem* own = at < own_.size() ? own_[at] : nullptr;
  DcmItem* found = own != nullptr ? item_of(*own, macro) : nullptr;
  if (found != nullptr || shared_ == nullptr) return found;
  return item_of(*shared_, macro);
}

namespace {

namespace fs = std::filesystem;

// ReferencedFileID holds the folders and the name as values of their own (PS3.3 F.3.2.2).
fs::path referenced_file(DcmItem& record) {
  OFString text;
  if (record.findAndGetOFStringArray(DCM_ReferencedFileID, text).bad()) return {};
  fs::path path;
  for (const std::string& value : split(std::string_view(text.c_str(), text.size()), '\\')) {
    const std::string part = trim(value);
    if (part.empty()) continue;
    if (part == "." || part == ".." || part.find('/') != std::string::npos ||
        part.find('\0') != std::string::npos) {
      throw DataError(concat("it names the file '", std::string_view(text.c_str(), text.size()),
                             "'; expected one in its own folder"));
    }
    path /= part;
  }
  return path;
}

// Discs are mounted with their names in capitals or in lower case.
fs::path find_file(const fs::path& folder, const fs::path& name) {
  const fs::path small = folder / lower(name.string());
  if (!fs::exists(status_of(folder / name)) && fs::exists(status_of(small))) return small;
  return folder / name;
}

// Through a symbolic link a file may still lie elsewhere.
void require_inside(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error), home = fs::weakly_canonical(folder);
  if (error || real.lexically_relative(home).string().starts_with("..")) {
    throw DataError(
        concat("it names the file '", file.string(), "', which lies outside its ", "folder"));
  }
}

std::vector<fs::path> referenced_files(const fs::path& path) {
  const DataSet data(std::make_shared<InputFile>(path, refuse_unnamed));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  DcmSequenceOfItems* records = nullptr;
  if (data.root().findAndGetSequence(DCM_DirectoryRecordSequence, records).bad())
    throw DataError("it is not a DICOMDIR: it has no directory records");
  for (DcmObject* object = nullptr; (object = records->nextInContainer(object)) != nullptr;) {
    auto* record = dynamic_cast<DcmItem*>(object);
    const fs::path name = record == nullptr ? fs::path() : referenced_file(*record);
    if (name.empty() || !seen.insert(name).second) continue;
    files.push_back(find_file(folder, name));
    require_inside(folder, files.back());
  }
  if (files.empty()) throw DataError("it names no file");
  return files;
}

}  // namespace

bool is_directory_file(const fs::path& path) {
  return lower(path.filename().string()) == "dicomdir";
}

std::vector<fs::path> read_directory(const fs::path& path) {
  return in_context(concat("'", path.string(), "'"), [&] { return referenced_files(path); });
}

}  // namespace coldframe::frames::dicom
