#include "extract/decode/nifti/nifti_header.h"

#include <nifti2_io.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"

namespace coldframe::frames {

namespace {

// The columns scaled to unit length.
nifti_dmat33 without_zooms(const Matrix3& transform) {
  nifti_dmat33 scaled{};
  for (std::size_t column = 0; column < 3; ++column) {
    const double zoom =
        std::hypot(transform[0][column], transform[1][column], transform[2][column]);
    for (std::size_t row = 0; row < 3; ++row) scaled.m[row][column] = transform[row][column] / zoom;
  }
  return scaled;
}

// A NaN compares false, too.
bool has_no_inverse(const nifti_dmat33& scaled) {
  constexpr double kSingular = 1e-9;
  return !(std::abs(nifti_dmat33_determ(scaled)) > kSingular);
}

// The orthogonal factor of the polar decomposition.
nifti_dmat33 without_zooms_and_shears(const Matrix3& transform) {
  const nifti_dmat33 scaled = without_zooms(transform);
  if (has_no_inverse(scaled))
    throw DataError("its orientation (sform, qform or pixdim) is singular; correct the header");
  return nifti_dmat33_polar(scaled);
}

}  // namespace

bool is_singular(const Matrix3& transform) {
  return has_no_inverse(without_zooms(transform));
}

Orientation closest_ras(const Matrix3& transform) {
  nifti_dmat33 rotation = without_zooms_and_shears(transform);
  std::array<double, 3> strongest{};
  for (std::size_t column = 0; column < 3; ++column) {
    for (const auto& row : rotation.m) {
      strongest[column] = std::max(strongest[column], row[column] * row[column]);
    }
  }
  std::array<std::size_t, 3> columns{0, 1, 2};
  std::stable_sort(columns.begin(), columns.end(),
                   [&](std::size_t a, std::size_t b) { return strongest[a] > strongest[b]; });
  Orientation orientation;
  std::array<bool, 3> taken{};
  for (const std::size_t column : columns) {
    std::size_t best = 3;
    for (std::size_t row = 0; row < 3; ++row) {
      if (taken[row]) continue;
      if (best == 3 || std::abs(rotation.m[row][column]) > std::abs(rotation.m[best][column])) {
        best = row;
      }
    }
    taken[best] = true;
    orientation[best] = {static_cast<int>(column), rotation.m[best][column] < 0};
  }
  return orientation;
}

namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kVersion1Bytes = sizeof(nifti_1_header);
constexpr std::int64_t kMaxLength = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVoxels = std::int64_t{1} << 48;

static_assert(kVersion1Bytes == 348 && sizeof(nifti_2_header) == kNiftiHeaderBytes);

// 1 or 2; 0: neither. The magic's second letter is '+' for one file and 'i' for a pair.
int version_of(std::string_view head) {
  const auto has_magic = [&](std::size_t at, std::string_view one, std::string_view pair) {
    return head.substr(at).starts_with(one) || head.substr(at).starts_with(pair);
  };
  const auto starts = [&](std::string_view little, std::string_view big) {
    return head.starts_with(little) || head.starts_with(big);
  };
  if (head.size() >= kVersion1Bytes && starts("\x5c\x01\0\0"sv, "\0\0\x01\x5c"sv) &&
      has_magic(344, "n+1\0"sv, "ni1\0"sv)) {
    return 1;
  }
  if (head.size() >= kNiftiHeaderBytes && starts("\x1c\x02\0\0"sv, "\0\0\x02\x1c"sv) &&
      has_magic(4, "n+2\0\r\n\x1a\n"sv, "ni2\0\r\n\x1a\n"sv)) {
    return 2;
  }
  return 0;
}

// By nifti1.h's DT_ and NIFTI_TYPE_ codes. DataError names a type that is not read: complex
// numbers, single bits, and float128, whose bytes differ between the machines that write it.
VoxelType voxel_type(int datatype) {
  switch (datatype) {
    case NIFTI_TYPE_UINT8:
      return {DType::kUint8, 1};
    case NIFTI_TYPE_INT8:
      return {DType::kInt8, 1};
    case NIFTI_TYPE_INT16:
      return {DType::kInt16, 1};
    case NIFTI_TYPE_UINT16:
      return {DType::kUint16, 1};
    case NIFTI_TYPE_INT32:
      return {DType::kInt32, 1};
    case NIFTI_TYPE_UINT32:
      return {DType::kUint32, 1};
    case NIFTI_TYPE_INT64:
      return {DType::kInt64, 1};
    case NIFTI_TYPE_UINT64:
      return {DType::kUint64, 1};
    case NIFTI_TYPE_FLOAT32:
      return {DType::kFp32, 1};
    case NIFTI_TYPE_FLOAT64:
      return {DType::kFp64, 1};
    case NIFTI_TYPE_RGB24:
      return {DType::kUint8, 3};
    case NIFTI_TYPE_RGBA32:
      return {DType::kUint8, 4};
    default:
      break;
  }
  throw DataError(concat("its voxels are of type ", nifti_datatype_to_string(datatype), " (",
                         datatype, "), which is not read; convert them to integers, float32, ",
                         "float64 or RGB24"));
}

using NiftiImage = std::unique_ptr<nifti_image, decltype(&nifti_image_free)>;

// libnifti reports to stderr what we report ourselves.
void silence_libnifti() {
  static std::once_flag once;
  std::call_once(once, [] { nifti_set_debug_level(0); });
}

NiftiImage to_image(const nifti_1_header& header) {
  return {nifti_convert_n1hdr2nim(header, nullptr), nifti_image_free};
}

NiftiImage to_image(const nifti_2_header& header) {
  return {nifti_convert_n2hdr2nim(header, nullptr), nifti_image_free};
}

template <typename Header>
class Parser {
 public:
  explicit Parser(std::string_view head) {
    std::memcpy(&raw_, head.data(), sizeof raw_);
    result_.swapped = raw_.sizeof_hdr != static_cast<int>(sizeof raw_);
    if (result_.swapped) swap_nifti_header(&raw_, is_first() ? 1 : 2);
  }

  NiftiHeader parse() {
    result_.is_pair = raw_.magic[1] == 'i';
    if (raw_.intent_code >= 3000 && raw_.intent_code <= 3099) {
      throw DataError("it is a CIFTI file of brain models, not a volume; convert it to NIfTI");
    }
    result_.type = voxel_type(raw_.datatype);
    read_dimensions();
    read_offset();
    read_scaling();
    read_units();
    read_orientation();
    return result_;
  }

 private:
  static constexpr bool is_first() { return std::is_same_v<Header, nifti_1_header>; }
  void read_dimensions();
  void read_components();
  void read_offset();
  void read_scaling();
  void read_units();
  void read_orientation();
  void place(const Matrix3& transform, const Point& origin);
  double mm() const;  // of the header's unit of length
  Matrix3 sform() const;
  Matrix3 qform(Point& origin) const;

  Header raw_;
  NiftiHeader result_;
};

template <typename Header>
void Parser<Header>::read_dimensions() {
  const std::int64_t count = raw_.dim[0];
  if (count < 1 || count > 7) {
    throw DataError(concat("its header is damaged: it has ", count, " dimensions, not 1 to 7"));
  }
  std::int64_t voxels = 1;
  for (std::int64_t i = 1; i <= 7; ++i) {
    if (i > count) raw_.dim[i] = 1;
    const std::int64_t length = raw_.dim[i];
    if (length < 1 || length > kMaxLength) {
      throw DataError(concat("its dimension ", i, " has a length of ", length, "; 1 to ",
                             kMaxLength, " are read"));
    }
    if (voxels > kMaxVoxels / length) throw DataError("its dimensions give more than 2^48 voxels");
    voxels *= length;
  }
  result_.size = {raw_.dim[1], raw_.dim[2], raw_.dim[3]};
  result_.times = raw_.dim[4];
  read_components();
}

// Three or four components are red, green, blue and what convert("RGB") drops.
template <typename Header>
void Parser<Header>::read_components() {
  const bool is_rgba = raw_.intent_code == NIFTI_INTENT_RGBA_VECTOR;
  const bool is_vector = is_rgba || raw_.intent_code == NIFTI_INTENT_VECTOR ||
                         raw_.intent_code == NIFTI_INTENT_RGB_VECTOR;
  const bool is_colour = result_.type.is_colour();
  if (raw_.dim[6] != 1 || raw_.dim[7] != 1) {
    throw DataError("it has more than 5 dimensions; x, y, z, time and 3 components are read");
  }
  result_.components = raw_.dim[5];
  const std::int64_t wanted = is_rgba ? 4 : 3;
  if (is_vector && !is_colour && result_.components == 1 && result_.times == wanted) {
    std::swap(result_.components, result_.times);
  }
  const std::int64_t found = result_.components;
  if (found != 1 && ((found != 3 && !(is_rgba && found == 4)) || is_colour)) {
    throw DataError(
        concat("its dimension 5 has ", found, " components; 1 is read, and 3 as a colour"));
  }
}

template <typename Header>
void Parser<Header>::read_offset() {
  const auto offset = static_cast<double>(raw_.vox_offset);
  const double least = result_.is_pair ? 0 : static_cast<double>(sizeof raw_ + 4);
  // nibabel takes 0 for the end of the header, where the extension flags follow.
  const double start = offset == 0 ? least : offset;
  if (!(start >= least && start < 0x1p62)) {
    throw DataError(concat("its header is damaged: the voxels start at byte ", offset));
  }
  result_.offset = static_cast<std::uint64_t>(start);
}

template <typename Header>
void Parser<Header>::read_scaling() {
  const auto slope = static_cast<double>(raw_.scl_slope);
  const auto intercept = static_cast<double>(raw_.scl_inter);
  if (slope != 0 && std::isfinite(slope) && !result_.type.is_colour()) {
    if (!std::isfinite(intercept)) {
      throw DataError(concat("its scaling is damaged: slope ", slope, ", intercept ", intercept));
    }
    result_.rescale = {slope, intercept};
  }
  result_.cal_min = static_cast<double>(raw_.cal_min);
  result_.cal_max = static_cast<double>(raw_.cal_max);
}

template <typename Header>
double Parser<Header>::mm() const {
  const int length = XYZT_TO_SPACE(raw_.xyzt_units);
  return length == NIFTI_UNITS_METER ? 1e3 : length == NIFTI_UNITS_MICRON ? 1e-3 : 1;
}

// Takes lengths without a unit for millimetres, as imaging tools do; times without one are not
// known.
template <typename Header>
void Parser<Header>::read_units() {
  const int time = XYZT_TO_TIME(raw_.xyzt_units);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double spacing = std::abs(static_cast<double>(raw_.pixdim[axis + 1])) * mm();
    const bool known =
        static_cast<std::int64_t>(axis) < raw_.dim[0] && spacing > 0 && std::isfinite(spacing);
    result_.spacing_mm[axis] = known ? spacing : kNotStated;
  }
  const double per_second = time == NIFTI_UNITS_SEC    ? 1
                            : time == NIFTI_UNITS_MSEC ? 1e3
                            : time == NIFTI_UNITS_USEC ? 1e6
                                                       : kNotStated;
  const double interval = static_cast<double>(raw_.pixdim[4]) / per_second;
  result_.interval_s = interval > 0 && std::isfinite(interval) ? interval : kNotStated;
}

template <typename Header>
Matrix3 Parser<Header>::qform(Point& origin) const {
  silence_libnifti();
  const NiftiImage image = to_image(raw_);
  if (!image) throw DataError("its header is damaged: libnifti refuses it");
  Matrix3 matrix{};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 3; ++column) {
      matrix[row][column] = image->qto_xyz.m[row][column];
    }
    origin[row] = image->qto_xyz.m[row][3];
  }
  return matrix;
}

template <typename Header>
Matrix3 Parser<Header>::sform() const {
  Matrix3 matrix{};
  for (std::size_t column = 0; column < 3; ++column) {
    matrix[0][column] = static_cast<double>(raw_.srow_x[column]);
    matrix[1][column] = static_cast<double>(raw_.srow_y[column]);
    matrix[2][column] = static_cast<double>(raw_.srow_z[column]);
  }
  return matrix;
}

template <typename Header>
void Parser<Header>::place(const Matrix3& transform, const Point& origin) {
  for (std::size_t row = 0; row < 3; ++row) {
    result_.origin[row] = origin[row] * mm();
    for (std::size_t axis = 0; axis < 3; ++axis)
      result_.axes[axis][row] = transform[row][axis] * mm();
  }
}

template <typename Header>
void Parser<Header>::read_orientation() {
  const bool has_qform = raw_.qform_code > 0;
  result_.is_sform_singular = has_qform && raw_.sform_code != 0 && is_singular(sform());
  if (raw_.sform_code != 0 && !result_.is_sform_singular) {
    result_.orientation = closest_ras(sform());
    place(sform(), {static_cast<double>(raw_.srow_x[3]), static_cast<double>(raw_.srow_y[3]),
                    static_cast<double>(raw_.srow_z[3])});
  } else if (has_qform) {
    Point origin{};
    const Matrix3 transform = qform(origin);
    result_.orientation = closest_ras(transform);
    place(transform, origin);
    for (std::size_t axis = 0; axis < 3; ++axis)  // libnifti takes 1 for what is no length
      if (!(raw_.pixdim[axis + 1] > 0) || !std::isfinite(raw_.pixdim[axis + 1]))
        result_.axes[axis].fill(kNotStated);
  } else {
    // As nibabel's get_base_affine(): the centre of the volume is the origin.
    for (int axis = 0; axis < 3; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      const bool backwards = axis < raw_.dim[0] && raw_.pixdim[axis + 1] < 0;
      result_.orientation[at] = {axis, backwards != (axis == 0)};
      const double step = (backwards != (axis == 0) ? -1 : 1) * result_.spacing_mm[at];
      result_.axes[at][at] = step;
      result_.origin[at] = -step * static_cast<double>(result_.size[at] - 1) / 2;
    }
  }
}

}  // namespace

bool is_nifti_header(std::string_view head) {
  return version_of(head) != 0;
}

NiftiHeader parse_nifti_header(std::string_view head) {
  switch (version_of(head)) {
    case 1:
      return Parser<nifti_1_header>(head).parse();
    case 2:
      return Parser<nifti_2_header>(head).parse();
    default:
      throw DataError(concat("its first ", head.size(), " bytes are no NIfTI-1 or NIfTI-2 header"));
  }
}

}  // namespace coldframe::frames
