#include "extract/decode/source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/decode/nifti/nifti_header.h"

namespace coldframe::frames {

std::string stored_identity(const std::string& name, const ReaderOptions& options) {
  if (name.empty() || options.keep_patient_id) return as_utf8(name);
  const bool by_number = options.equal_numbers == EqualNumbers::kSame;
  constexpr std::size_t kHashDigits = 16;
  return sha256_hex(options.patient_salt + (by_number ? plain_id(name) : plain_spelling(name)))
      .substr(0, kHashDigits);
}

std::vector<Plane> Source::planes() const {
  throw DataError("it holds no volume; expected a NIfTI file or slices of a DICOM series");
}

void Source::read_planes(const std::function<void(std::span<const double>)>&) {
  planes();
}

// The registry of readers. A file belongs to the first kind whose `detect` recognises its content.

// Each row stands next to its reader.
extern const SourceKind kDicomKind, kStackKind, kPageKind, kImageKind, kVideoKind, kNpyKind,
    kNiftiKind;

namespace {

// DICOM before images: the preamble of a DICOM file may be the header of a TIFF file. Stacks before
// pages, which are what else is a TIFF file.
// Clips last: some of their streams have no signature that other bytes could not have, too.
constexpr std::array kKinds{&kDicomKind, &kStackKind, &kImageKind, &kPageKind,
                            &kNpyKind,   &kNiftiKind, &kVideoKind};

}  // namespace

std::span<const SourceKind* const> source_kinds() {
  return kKinds;
}

const SourceKind* detect_kind(const SourceFile& file) {
  const auto held = file.hold();
  const auto kind =
      std::ranges::find_if(kKinds, [&](const SourceKind* each) { return each->detect(file); });
  return kind == kKinds.end() ? nullptr : *kind;
}

const SourceKind& require_kind(const SourceFile& file) {
  const auto held = file.hold();
  const std::string_view head = file.head();
  if (head.empty()) throw DataError(concat("'", file.path().string(), "' is empty"));
  if (const SourceKind* kind = detect_kind(file)) return *kind;
  if (const ForeignKind* foreign = foreign_kind(file))
    throw DataError(concat("'", file.path().string(), "' is ", foreign->name,
                           ", which is not read; ", foreign->advice));
  std::vector<std::string> known;
  for (const SourceKind* each : kKinds) known.emplace_back(each->contents);
  throw DataError(concat("'", file.path().string(), "' is of no known kind (its first bytes are ",
                         to_hex(std::as_bytes(std::span(head.substr(0, 8)))), "); expected one of ",
                         join(known, ", ")));
}

bool reaches(double time_s, double bound_s) {
  constexpr double kRounding = 1e-9;
  return time_s >= bound_s || bound_s - time_s < kRounding * std::max(1.0, std::abs(time_s));
}

// Sources: ISO/IEC 23008-12 (HEIF), annex B; the AV1 Image File Format, section 6; dbh.h of ANALYZE
// 7.5 (Mayo Clinic).

namespace {

constexpr ForeignKind kHeic{"a HEIC image", "HEIC images", "convert to JPEG or PNG"};
constexpr ForeignKind kAvif{"an AVIF image", "AVIF images", "convert to JPEG or PNG"};
constexpr ForeignKind kAnalyze{"an ANALYZE 7.5 volume", "ANALYZE 7.5 volumes",
                               "its header states no orientation: convert to NIfTI"};

// A box "ftyp" names a file's brand, and those that it is compatible with.
const ForeignKind* image_of_boxes(std::string_view head) {
  if (head.size() < 16 || head.substr(4, 4) != "ftyp") return nullptr;
  const std::uint64_t length = ByteCursor(head, std::endian::big).u32(0);
  const auto has = [&](std::string_view brand) {
    for (std::size_t at = 8; at + 4 <= std::min<std::uint64_t>(length, head.size()); at += 4)
      if (at != 12 && head.substr(at, 4) == brand) return true;
    return false;
  };
  if (has("avif") || has("avis")) return &kAvif;
  constexpr std::array kBrands{"heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"};
  const std::string_view brand = head.substr(8, 4);
  const bool is_image = brand == "mif1" || brand == "msf1";
  return is_image || std::ranges::find(kBrands, brand) != kBrands.end() ? &kHeic : nullptr;
}

bool is_analyze(std::string_view head) {
  constexpr std::size_t kHeaderBytes = 348, kDimensions = 40;
  if (head.size() < kHeaderBytes || is_nifti_header(head)) return false;
  for (const auto order : {std::endian::little, std::endian::big}) {
    const ByteCursor in(head, order);
    const unsigned dimensions = in.u16(kDimensions);
    if (in.u32(0) == kHeaderBytes && dimensions >= 1 && dimensions <= 7) return true;
  }
  return false;
}

}  // namespace

const ForeignKind* foreign_kind(const SourceFile& file) {
  const auto held = file.hold();
  if (const ForeignKind* image = image_of_boxes(file.head())) return image;
  return is_analyze(file.head()) ? &kAnalyze : nullptr;
}

bool is_analyze_voxels(const SourceFile& file) {
  std::filesystem::path header = file.path();
  if (lower(header.extension().string()) != ".img") return false;
  std::error_code error;
  return std::filesystem::exists(header.replace_extension(".hdr"), error) &&
         foreign_kind(file.beside(header)) == &kAnalyze;
}

}  // namespace coldframe::frames
