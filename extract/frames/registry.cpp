// The registry of readers. A file belongs to the first kind whose `detect` recognises its content.
#include <array>
#include <span>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/frames/kinds.h"

namespace coldframe::frames {
namespace {

constexpr std::array kKinds{
    // Before images: the preamble of a DICOM file may be the header of a TIFF file.
    SourceKind{"dicom", "DICOM", true, detect_dicom, open_dicom, dicom_facts},
    SourceKind{"stack", "TIFF stacks", true, detect_stack, open_stack, nullptr},
    SourceKind{"image", "JPEG, PNG, JPEG 2000, TIFF, WebP, PGM, PPM", false, detect_image,
               open_image, nullptr},
    SourceKind{"video", "MP4, MOV, AVI, MPEG, MKV, WebM, WMV, Ogg, GIF, animated PNG", true,
               detect_video, open_video, nullptr},
    SourceKind{"webp", "animated WebP", true, detect_animated_webp, open_animated_webp, nullptr},
    SourceKind{"npy", "NumPy arrays", true, detect_npy, open_npy, nullptr},
    SourceKind{"nifti", "NIfTI", true, detect_nifti, open_nifti, nullptr},
};

constexpr std::size_t kHeadBytes = 4096;

std::string read_head(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string head(kHeadBytes, '\0');
  head.resize(file.read_some(0, std::as_writable_bytes(std::span(head))));
  return head;
}

const SourceKind* kind_of(std::string_view head, const std::filesystem::path& path) {
  for (const SourceKind& kind : kKinds) {
    if (kind.detect(head, path)) return &kind;
  }
  return nullptr;
}

}  // namespace

std::span<const SourceKind> source_kinds() {
  return kKinds;
}

const SourceKind* detect_kind(const std::filesystem::path& path) {
  return kind_of(read_head(path), path);
}

std::unique_ptr<Source> open_source(const std::filesystem::path& path, const ReaderOptions& options,
                                    const SourceKind*& kind) {
  const std::string head = read_head(path);
  if (head.empty()) throw DataError(concat("'", path.string(), "' is empty"));
  kind = kind_of(head, path);
  if (kind != nullptr) return kind->open(path, options);
  std::string known;
  for (const SourceKind& each : kKinds) known += concat(known.empty() ? "" : ", ", each.contents);
  const auto first = std::as_bytes(std::span(head)).first(std::min<std::size_t>(8, head.size()));
  throw DataError(concat("'", path.string(), "' is of no known kind (its first bytes are ",
                         to_hex(first), "); expected one of ", known));
}

}  // namespace coldframe::frames
