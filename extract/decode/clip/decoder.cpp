#include "extract/decode/clip/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/clip/ffmpeg.h"
#include "extract/decode/image/still_formats.h"

namespace coldframe::frames {

namespace {

const AVPixFmtDescriptor* descriptor_of(int pixel_format) {
  return av_pix_fmt_desc_get(static_cast<AVPixelFormat>(pixel_format));
}

bool is_grey(const AVPixFmtDescriptor& format) {
  return format.nb_components <= 2 && !(format.flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL));
}

int sign(std::int32_t value) {
  return (value > 0) - (value < 0);
}

// swscale's vector code writes whole registers: rows have room after their end.
std::size_t padded_stride(std::size_t row) {
  constexpr std::size_t kRegister = 64;
  return (row + kRegister - 1) / kRegister * kRegister + kRegister;
}

// Blue first and bicubic: swscale then rounds as in OpenCV's video reader, which is out by two
// levels of green at some odd sizes; models have been trained on those pixels.
SwsPointer make_scaler(const AVFrame& picture, int to_width, int to_format) {
  constexpr int kCentred = -513;  // swscale's default, of chroma that the stream does not place
  int across = kCentred, down = kCentred;
  avcodec_enum_to_chroma_pos(&across, &down, picture.chroma_location);
  const AVPixFmtDescriptor* format = descriptor_of(picture.format);
  if (format == nullptr || format->log2_chroma_w == 0) across = kCentred;
  if (format == nullptr || format->log2_chroma_h == 0) down = kCentred;
  const std::pair<const char*, int> options[] = {
      {"srcw", picture.width},    {"srch", picture.height},  {"src_format", picture.format},
      {"dstw", to_width},         {"dsth", picture.height},  {"dst_format", to_format},
      {"sws_flags", SWS_BICUBIC}, {"src_h_chr_pos", across}, {"src_v_chr_pos", down}};
  SwsPointer scaler(sws_alloc_context());
  if (!scaler) throw std::bad_alloc();
  for (const auto& [name, value] : options) av_opt_set_int(scaler.get(), name, value, 0);
  if (sws_init_context(scaler.get(), nullptr, nullptr) >= 0) return scaler;
  throw DataError(concat("its pixel format, number ", picture.format, ", is not read"));
}

int stated_orientation(const AVStream& stream) {
  std::size_t size = 0;
  const std::uint8_t* bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  std::array<std::int32_t, 9> matrix{};
  if (bytes == nullptr || size < sizeof(matrix)) return 1;
  std::memcpy(matrix.data(), bytes, sizeof(matrix));
  return matrix_orientation(matrix);
}

// The width of a pixel by its height, as the container or else the picture states it; 1 where
// neither does, or what it states cannot be.
double aspect_of(const AVRational& by_container, const AVRational& by_picture) {
  constexpr double kMost = 16;
  for (const AVRational& stated : {by_container, by_picture}) {
    if (stated.num <= 0 || stated.den <= 0) continue;
    const double aspect = av_q2d(stated);
    return aspect > 1 / kMost && aspect < kMost ? aspect : 1;
  }
  return 1;
}

std::uint16_t word_at(const std::uint8_t* bytes, bool big) {
  return static_cast<std::uint16_t>(big ? bytes[0] << 8 | bytes[1] : bytes[1] << 8 | bytes[0]);
}

// The rounded mean of two lines, of bytes or of numbers of two.
void set_to_mean(const std::uint8_t* above, const std::uint8_t* below, std::size_t bytes,
                 bool is_wide, bool is_big, std::uint8_t* line) {
  if (!is_wide) {
    for (std::size_t i = 0; i < bytes; ++i)
      line[i] = static_cast<std::uint8_t>((above[i] + below[i] + 1) / 2);
    return;
  }
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    const int mean = (word_at(above + i, is_big) + word_at(below + i, is_big) + 1) / 2;
    line[i + (is_big ? 1 : 0)] = static_cast<std::uint8_t>(mean & 0xff);
    line[i + (is_big ? 0 : 1)] = static_cast<std::uint8_t>(mean >> 8);
  }
}

}  // namespace

bool is_deep(int pixel_format) {
  const AVPixFmtDescriptor* format = descriptor_of(pixel_format);
  return format != nullptr && format->comp[0].depth > 8 && !(format->flags & AV_PIX_FMT_FLAG_FLOAT);
}

std::vector<std::string> notes_on(const ClipInput& input, bool is_interlaced,
                                  const ReaderOptions& options) {
  std::vector<std::string> notes;
  const AVStream& stream = input.stream();
  const double aspect = aspect_of(stream.sample_aspect_ratio, stream.codecpar->sample_aspect_ratio);
  if (aspect != 1 && !options.square_pixels)
    notes.push_back(concat("pixels are not square (", fixed(aspect, 3),
                           " times as wide as high); --square-pixels makes them so"));
  if (is_interlaced && !options.deinterlace)
    notes.emplace_back("frames are interlaced; --deinterlace keeps one field of each");
  if (input.streams() > 1)
    notes.push_back(concat("of ", input.streams(), " streams of pictures the largest is read"));
  return notes;
}

int matrix_orientation(std::span<const std::int32_t, 9> matrix) {
  const int xx = sign(matrix[0]), yx = sign(matrix[3]), xy = sign(matrix[1]), yy = sign(matrix[4]);
  const bool straight = xx && yy && !yx && !xy, crossed = !xx && !yy && yx && xy;
  if (!xx && !yx && !xy && !yy) return 1;  // some writers leave it empty
  if (!straight && !crossed) throw DataError("its display angle is not a multiple of 90°");
  const bool mirrors_columns = xx + yx < 0, mirrors_rows = xy + yy < 0;
  const int mirrored = mirrors_columns ? (mirrors_rows ? 3 : 2) : (mirrors_rows ? 4 : 1);
  return crossed ? mirrored + 4 : mirrored;
}

ClipConverter::ClipConverter(const AVStream& stream, const ReaderOptions& options)
    : orientation_(stated_orientation(stream)),
      stated_aspect_(stream.sample_aspect_ratio),
      square_pixels_(options.square_pixels),
      deinterlace_(options.deinterlace) {
  const Window& window = options.window;
  if (window.kind == Window::Kind::kFixed)
    range_ = {window.center - window.width / 2, window.center + window.width / 2};
}

void ClipConverter::prepare(const AVFrame& picture, int to_width, int to_format) {
  const Colours colours{
      picture.width,       picture.height,          picture.format, picture.colorspace,
      picture.color_range, picture.chroma_location, to_width,       to_format};
  if (scaler_ && colours == colours_) return;
  scaler_ = make_scaler(picture, to_width, to_format);
  colours_ = colours;
  if (is_grey(*descriptor_of(to_format))) return;  // numbers stay what they are
  int *from = nullptr, *to = nullptr, from_full = 0, to_full = 0, brightness = 0, contrast = 0,
      saturation = 0;
  sws_getColorspaceDetails(scaler_.get(), &from, &from_full, &to, &to_full, &brightness, &contrast,
                           &saturation);
  if (picture.color_range == AVCOL_RANGE_JPEG) from_full = 1;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(picture.colorspace), from_full, to,
                           to_full, brightness, contrast, saturation);
}

int ClipConverter::shown_width(const AVFrame& picture) const {
  if (!square_pixels_) return picture.width;
  const double width = picture.width * aspect_of(stated_aspect_, picture.sample_aspect_ratio);
  return static_cast<int>(std::clamp<std::int64_t>(std::lround(width), 1, kMaxSide));
}

// Its first field, and the mean of the lines above and below in place of each line of the other.
FramePointer ClipConverter::without_fields(const AVFrame& picture) const {
  const AVPixFmtDescriptor* format = descriptor_of(picture.format);
  const bool is_wide = format != nullptr && format->comp[0].depth > 8;
  if (format == nullptr || format->flags & (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM) ||
      format->comp[0].depth < 8 || (is_wide && format->comp[0].step % 2 != 0))
    throw DataError("its pixel format cannot be deinterlaced; leave --deinterlace out");
  FramePointer result(av_frame_alloc());
  if (!result) throw std::bad_alloc();
  result->format = picture.format;
  result->width = picture.width;
  result->height = picture.height;
  if (av_frame_get_buffer(result.get(), 0) < 0 || av_frame_copy(result.get(), &picture) < 0 ||
      av_frame_copy_props(result.get(), &picture) < 0)
    throw std::bad_alloc();
  for (int plane = 0; plane < av_pix_fmt_count_planes(static_cast<AVPixelFormat>(picture.format));
       ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int height =
        is_chroma ? AV_CEIL_RSHIFT(picture.height, format->log2_chroma_h) : picture.height;
    const int bytes =
        av_image_get_linesize(static_cast<AVPixelFormat>(picture.format), picture.width, plane);
    const auto line = [&](int y) {
      return result->data[plane] + static_cast<std::ptrdiff_t>(y) * result->linesize[plane];
    };
    for (int y = picture.top_field_first ? 1 : 0; y < height; y += 2) {
      const int above = y > 0 ? y - 1 : y + 1, below = y + 1 < height ? y + 1 : y - 1;
      if (height > 1)
        set_to_mean(line(above), line(below), static_cast<std::size_t>(bytes), is_wide,
                    (format->flags & AV_PIX_FMT_FLAG_BE) != 0, line(y));
    }
  }
  return result;
}

ClipConverter::Rows ClipConverter::convert(const AVFrame& stored, int to_format) {
  FramePointer whole;
  if (deinterlace_ && stored.interlaced_frame != 0) whole = without_fields(stored);
  const AVFrame& picture = whole ? *whole : stored;
  Rows rows;
  rows.width = shown_width(picture);
  rows.height = picture.height;
  if (std::int64_t{rows.width} * rows.height > kMaxPixels)
    throw DataError("its pictures are too large with square pixels");
  prepare(picture, rows.width, to_format);
  const int row = av_image_get_linesize(static_cast<AVPixelFormat>(to_format), rows.width, 0);
  rows.stride = padded_stride(static_cast<std::size_t>(row));
  rows.bytes.reset(
      static_cast<std::uint8_t*>(av_malloc(rows.stride * static_cast<std::size_t>(rows.height))));
  if (!rows.bytes) throw std::bad_alloc();
  std::uint8_t* const planes[] = {rows.bytes.get(), nullptr, nullptr, nullptr};
  const int strides[] = {static_cast<int>(rows.stride), 0, 0, 0};
  if (sws_scale(scaler_.get(), picture.data, picture.linesize, 0, picture.height, planes, strides) <
      0)
    throw DataError("its pictures cannot be turned to RGB");
  return rows;
}

// Row by row, of grey one a pixel, else red, green and blue, in the numbers of their own bits;
// calls visit(value, whether it is grey).
template <typename Visit>
void ClipConverter::for_each_sample(const AVFrame& picture, const Visit& visit) {
  const AVPixFmtDescriptor& format = *descriptor_of(picture.format);
  const bool grey = is_grey(format);
  const Rows rows = convert(picture, grey ? AV_PIX_FMT_GRAY16LE : AV_PIX_FMT_RGB48LE);
  const int unused = 16 - std::min(16, format.comp[0].depth);
  const std::size_t samples = static_cast<std::size_t>(rows.width) * (grey ? 1 : 3);
  for (int y = 0; y < rows.height; ++y) {
    const std::uint8_t* from = rows.bytes.get() + static_cast<std::size_t>(y) * rows.stride;
    for (std::size_t i = 0; i < samples; ++i, from += 2)
      visit(word_at(from, false) >> unused, grey);
  }
}

void ClipConverter::survey(const AVFrame& picture, ValueSurvey& survey) {
  std::vector<std::uint64_t> counts(65536);
  for_each_sample(picture, [&](int value, bool) { ++counts[static_cast<std::size_t>(value)]; });
  for (std::size_t value = 0; value < counts.size(); ++value)
    survey.add(static_cast<double>(value), counts[value]);
}

Image ClipConverter::to_image(const AVFrame& picture) {
  Image image{shown_width(picture), picture.height, {}};
  const std::size_t row = static_cast<std::size_t>(image.width) * 3;
  if (range_ && is_deep(picture.format)) {
    image.rgb.reserve(row * static_cast<std::size_t>(image.height));
    for_each_sample(picture, [&](int value, bool grey) {
      image.rgb.insert(image.rgb.end(), grey ? 3 : 1, to_level(value, *range_));
    });
    return upright(std::move(image), orientation_);
  }
  const Rows rows = convert(picture, AV_PIX_FMT_BGR24);
  image.rgb.resize(row * static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* const blue_first =
        rows.bytes.get() + static_cast<std::size_t>(y) * rows.stride;
    std::uint8_t* const red_first = &image.rgb[static_cast<std::size_t>(y) * row];
    for (std::size_t x = 0; x < row; x += 3) {
      red_first[x] = blue_first[x + 2];
      red_first[x + 1] = blue_first[x + 1];
      red_first[x + 2] = blue_first[x];
    }
  }
  return upright(std::move(image), orientation_);
}

namespace {

class DamageFinder {
 public:
  DamageFinder(std::span<const PacketFacts> packets, std::span<const DecodedFacts> decoded)
      : packets_(packets),
        decoded_(decoded),
        frame_of_(packets.size(), -1),
        lost_(packets.size(), false),
        packet_of_(decoded.size(), 0) {
    std::size_t before = 0;
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const auto packet = static_cast<std::size_t>(decoded[i].packet);
      if (packet < packets.size()) {
        before = packet;
        frame_of_[packet] = static_cast<std::int64_t>(i);
      }
      packet_of_[i] = before;
    }
  }

  void spread(bool intra_only) {
    for (std::size_t p = 0; p < packets_.size();) {
      if (!is_damaged(p)) {
        ++p;
        continue;
      }
      std::size_t end = p + 1;
      while (!intra_only && end < packets_.size() && !begins_anew(end)) ++end;
      std::fill(lost_.begin() + static_cast<std::ptrdiff_t>(p),
                lost_.begin() + static_cast<std::ptrdiff_t>(end), true);
      if (!intra_only && end < packets_.size()) lose_shown_before(end);
      p = end;
    }
  }

  std::vector<ClipSlot> slots() const {
    const auto first_key = static_cast<std::size_t>(
        std::ranges::find_if(packets_, &PacketFacts::is_key) - packets_.begin());
    const std::size_t begin = first_key == packets_.size() ? 0 : first_key;
    std::vector<ClipSlot> slots;
    std::vector<std::size_t> from;  // the packet of each slot
    for (std::size_t i = 0; i < decoded_.size(); ++i) {
      const bool is_lost = decoded_[i].is_damaged || (!packets_.empty() && lost_[packet_of_[i]]);
      if (is_lost && packet_of_[i] < begin) continue;
      slots.push_back({is_lost ? -1 : static_cast<std::int64_t>(i), decoded_[i].timestamp});
      from.push_back(packet_of_[i]);
    }
    for (std::size_t p = begin; p < packets_.size(); ++p)
      if (lost_[p] && frame_of_[p] < 0) insert(p, slots, from);
    return slots;
  }

 private:
  bool is_damaged(std::size_t packet) const {
    const std::int64_t frame = frame_of_[packet];
    return packets_[packet].is_damaged ||
           (frame >= 0 && decoded_[static_cast<std::size_t>(frame)].is_damaged);
  }
  bool begins_anew(std::size_t packet) const {
    const std::int64_t frame = frame_of_[packet];
    return packets_[packet].is_key && !is_damaged(packet) && frame >= 0 &&
           decoded_[static_cast<std::size_t>(frame)].is_intra;
  }

  void lose_shown_before(std::size_t key) {
    for (std::size_t p = key + 1; p < packets_.size() && !packets_[p].is_key; ++p) {
      const bool is_before = frame_of_[p] >= 0 ? frame_of_[p] < frame_of_[key]
                                               : packets_[p].timestamp < packets_[key].timestamp;
      if (is_before) lost_[p] = true;
    }
  }

  // A lost frame that did not come out: where its time lies, or, in a stream without times, before
  // what was coded after it. One of another frame's time is a packet that shows nothing.
  void insert(std::size_t packet, std::vector<ClipSlot>& slots,
              std::vector<std::size_t>& from) const {
    const std::int64_t timestamp = packets_[packet].timestamp;
    const auto untimed = [](const ClipSlot& slot) { return slot.timestamp == AV_NOPTS_VALUE; };
    std::size_t at = 0;
    if (timestamp == AV_NOPTS_VALUE || std::ranges::any_of(slots, untimed)) {
      while (at < slots.size() && from[at] < packet) ++at;
    } else {
      while (at < slots.size() && slots[at].timestamp < timestamp) ++at;
      if (at < slots.size() && slots[at].timestamp == timestamp) return;
    }
    slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(at), {-1, timestamp});
    from.insert(from.begin() + static_cast<std::ptrdiff_t>(at), packet);
  }

  std::span<const PacketFacts> packets_;
  std::span<const DecodedFacts> decoded_;
  std::vector<std::int64_t> frame_of_;  // of each packet; −1: none came out
  std::vector<bool> lost_;              // packets
  std::vector<std::size_t> packet_of_;  // of each frame
};

bool rise(std::span<const ClipSlot> slots) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].timestamp == AV_NOPTS_VALUE ||
        (i > 0 && slots[i].timestamp <= slots[i - 1].timestamp))
      return false;
  return true;
}

// Damage spoils time stamps, too. Where those of lost frames do not rise from the whole frame
// before to the one behind, they are spread evenly between these, as many as there is room for;
// without a frame on either side they are unknown.
void spread_between(const ClipSlot& before, const ClipSlot& behind, std::vector<ClipSlot>& lost) {
  if (before.timestamp == AV_NOPTS_VALUE || behind.timestamp == AV_NOPTS_VALUE) return;
  const std::int64_t gap = behind.timestamp - before.timestamp;
  lost.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(gap - 1, 0, std::ssize(lost))));
  for (std::size_t i = 0; i < lost.size(); ++i)
    lost[i].timestamp =
        before.timestamp + av_rescale(gap, static_cast<std::int64_t>(i) + 1, std::ssize(lost) + 1);
}

std::vector<ClipSlot> with_rising_times(const std::vector<ClipSlot>& slots) {
  std::vector<ClipSlot> result;
  for (std::size_t begin = 0; begin < slots.size();) {
    if (slots[begin].decoded >= 0) {
      result.push_back(slots[begin++]);
      continue;
    }
    std::size_t end = begin;
    while (end < slots.size() && slots[end].decoded < 0) ++end;
    const std::size_t first = begin - (begin > 0 ? 1 : 0), last = std::min(end + 1, slots.size());
    std::vector<ClipSlot> lost(slots.begin() + static_cast<std::ptrdiff_t>(begin),
                               slots.begin() + static_cast<std::ptrdiff_t>(end));
    if (!rise(std::span(slots).subspan(first, last - first))) {
      if (begin > 0 && end < slots.size())
        spread_between(slots[first], slots[last - 1], lost);
      else
        for (ClipSlot& slot : lost) slot.timestamp = AV_NOPTS_VALUE;
    }
    result.insert(result.end(), lost.begin(), lost.end());
    begin = end;
  }
  return result;
}

}  // namespace

std::vector<ClipSlot> slots_of(std::span<const PacketFacts> packets,
                               std::span<const DecodedFacts> decoded, bool intra_only) {
  DamageFinder damage(packets, decoded);
  damage.spread(intra_only);
  return with_rising_times(damage.slots());
}

namespace {

constexpr std::int64_t kMaxClipPixels = 1 << 27;

// Limits what a file may claim for one frame. Plain black compresses some thousand times: small
// files get a free allowance, and no file of a few bytes takes gigabytes.
std::int64_t pixel_limit(std::uint64_t file_size) {
  constexpr std::uint64_t kFree = 1 << 22, kPerByte = 1 << 10;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(
      kMaxClipPixels, kFree + kPerByte * std::min<std::uint64_t>(file_size, kMaxClipPixels)));
}

// Limits what a file may claim for all frames together, so that no small file is read for hours: a
// thousand frames of 4K, or frames of 2 million pixels in 32 bytes each, which only a picture that
// stands still takes.
std::int64_t total_limit(std::uint64_t file_size) {
  constexpr std::uint64_t kFree = std::uint64_t{1} << 33, kPerByte = 1 << 16;
  return static_cast<std::int64_t>(kFree + kPerByte * std::min(file_size, std::uint64_t{1} << 40));
}

CodecPointer open_codec(const ClipInput& input) {
  const AVCodecParameters& parameters = *input.stream().codecpar;
  const AVCodec* decoder = avcodec_find_decoder(parameters.codec_id);
  const std::string name = avcodec_get_name(parameters.codec_id);
  if (decoder == nullptr) throw DataError(concat("its codec, ", name, ", is not known"));
  CodecPointer codec(avcodec_alloc_context3(decoder));
  if (!codec) throw std::bad_alloc();
  int status = avcodec_parameters_to_context(codec.get(), &parameters);
  codec->codec_whitelist = av_strdup(kClipCodecs);
  codec->max_pixels = pixel_limit(input.file().size());
  codec->pkt_timebase = input.stream().time_base;
  codec->thread_count = 1;                 // our decoders run side by side
  codec->flags |= AV_CODEC_FLAG_BITEXACT;  // else some interpolations are approximate
  if (status >= 0) status = avcodec_open2(codec.get(), decoder, nullptr);
  if (status < 0) {
    throw DataError(concat("its codec, ", name, ", cannot be opened (", ffmpeg_error(status),
                           "); convert it to H.264"));
  }
  return codec;
}

[[noreturn]] void refuse(int status) {
  if (status == AVERROR(ENOMEM)) {
    throw DataError(concat("it asks for more than the ", kMaxAllocation >> 20,
                           " MB that one picture may take"));
  }
  throw DataError(ffmpeg_error(status));
}

}  // namespace

ClipDecoder::ClipDecoder(std::shared_ptr<const ByteSource> file)
    : input_(std::move(file)),
      fields_(input_.stream()),
      codec_(open_codec(input_)),
      packet_(av_packet_alloc()),
      frame_(av_frame_alloc()) {
  if (!packet_ || !frame_) throw std::bad_alloc();
}

bool ClipDecoder::next() {
  for (;;) {
    const int status = avcodec_receive_frame(codec_.get(), frame_.get());
    if (status == AVERROR_EOF) return false;
    if (status >= 0) {
      refusals_ = 0;
      check_frame();
      return true;
    }
    if (status == AVERROR(EAGAIN))
      send_packet();
    else
      note_refusal(status);
  }
}

bool ClipDecoder::go_to(std::int64_t timestamp) {
  if (!input_.go_to(timestamp)) return false;
  avcodec_flush_buffers(codec_.get());
  fields_.restart();
  return true;
}

// False at the end, and where the container is damaged or ends within a packet: frames that the
// decoder still holds are whole.
bool ClipDecoder::read_packet() {
  if (!fault_.empty()) return false;
  try {
    return input_.read(*packet_);
  } catch (const DataError& error) {
    fault_ = error.what();
  }
  return false;
}

void ClipDecoder::note_packet() {
  const bool is_corrupt = (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0;
  if (fields_.completes(*packet_) && !packets_.empty()) {
    packets_.back().is_damaged = packets_.back().is_damaged || is_corrupt;
  } else {
    // Animations build each frame upon the one before, whatever their packets say.
    packets_.push_back(
        {packet_->pts != AV_NOPTS_VALUE ? packet_->pts : packet_->dts,
         !is_animation(*input_.stream().codecpar) && (packet_->flags & AV_PKT_FLAG_KEY) != 0,
         is_corrupt});
  }
  codec_->reordered_opaque = std::ssize(packets_) - 1;
}

void ClipDecoder::send_packet() {
  const bool is_packet = read_packet();
  if (is_packet) note_packet();
  if (!is_packet && fault_.empty() && ends_corrupt_) fault_ = "its data is cut off or damaged";
  ends_corrupt_ = is_packet && (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0;
  const int status = avcodec_send_packet(codec_.get(), is_packet ? packet_.get() : nullptr);
  if (status < 0) note_refusal(status);
}

// What the decoder refuses is the packet that it got last.
void ClipDecoder::note_refusal(int status) {
  constexpr int kMaxRefusals = 1 << 16;
  if (status == AVERROR(ENOMEM) || packets_.empty() || ++refusals_ > kMaxRefusals) refuse(status);
  packets_.back().is_damaged = true;
}

void ClipDecoder::check_frame() {
  pixels_ += std::int64_t{frame_->width} * frame_->height;
  const std::uint64_t size = input_.file().size();
  if (pixels_ > total_limit(size)) {
    throw DataError(concat("it holds more pixels than ", size, " bytes can show"));
  }
}

bool ClipDecoder::is_damaged() const {
  return frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0;
}

DecodedFacts ClipDecoder::facts() const {
  return {frame_->reordered_opaque,
          input_.has_clock() ? frame_->best_effort_timestamp : AV_NOPTS_VALUE, is_damaged(),
          frame_->pict_type == AV_PICTURE_TYPE_I ||
              (frame_->pict_type == AV_PICTURE_TYPE_NONE && frame_->key_frame != 0) ||
              is_intra_only()};
}

bool ClipDecoder::is_intra_only() const {
  const AVCodecDescriptor* codec = avcodec_descriptor_get(codec_->codec_id);
  return codec != nullptr && (codec->props & AV_CODEC_PROP_INTRA_ONLY) != 0 &&
         !is_animation(*input_.stream().codecpar);
}

}  // namespace coldframe::frames
