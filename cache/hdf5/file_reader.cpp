#include "cache/hdf5/file_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "cache/format/format.h"
#include "cache/hdf5/checksums.h"
#include "cache/hdf5/chunk_index.h"
#include "cache/hdf5/messages.h"
#include "cache/hdf5/object_header.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
namespace {

constexpr std::size_t kMostLinks = 1u << 16;
constexpr std::size_t kMostDimensions = 4;         // frames, height, width, colours
constexpr std::uint64_t kLongestRow = 1ull << 30;  // of a dataset without rows

// The superblock of version 3 (II.A). Returns the address of the root group.
std::uint64_t read_superblock(const ByteSource& store, Checksums checksums) {
  const auto bytes = read_metadata_block(store, 0, 44, checksums);
  Cursor cursor(bytes, "the superblock");
  cursor.expect("\x89HDF\r\n\x1a\n");
  require(cursor.number(1) == 3 && cursor.number(1) == 8 && cursor.number(1) == 8,
          "another superblock than Coldframe writes");
  require(cursor.number(1) == 0, "marked as being written by another program");
  require(cursor.number(8) == 0, "content that does not start at the beginning of the file");
  require(cursor.number(8) == kNoAddress,
          "a superblock extension, which this format does not have");
  require(cursor.number(8) == store.size(), "another end of file than the superblock says");
  return cursor.number(8);
}

// Both kinds of object may have attributes in a heap and say so here; ours never do.
void require_plain(const ObjectHeader& header, const std::string& path) {
  for (const MessageKind kind : {MessageKind::kLinkInfo, MessageKind::kAttributeInfo}) {
    const Message* info = header.find(kind);
    if (info == nullptr) continue;
    // Version, flags, [largest creation index], address of the heap.
    Cursor cursor(info->body, "an object header");
    require(cursor.number(1) == 0, "an object header of another version than this format has");
    const bool has_index = (cursor.number(1) & 1) != 0;
    if (has_index) cursor.take(kind == MessageKind::kLinkInfo ? 8 : 2);
    require(cursor.number(8) == kNoAddress, path + " keeps links or attributes in a heap");
  }
  if (const Message* count = header.find(MessageKind::kReferenceCount)) {
    Cursor cursor(count->body, "a reference count");
    cursor.take(1);
    require(cursor.number(4) == 1, path + " has several names");
  }
}

// The links of a group in order of creation, and where each name is among them.
struct Group {
  std::vector<Link> links;
  std::unordered_map<std::string, std::size_t> places;
};

Group read_links(const ObjectHeader& header, const std::string& path) {
  Group group;
  std::vector<Link>& links = group.links;
  for (const Message& message : header.messages) {
    if (message.kind != MessageKind::kLink) continue;
    require(!message.shared, path + " shares a link");
    links.push_back(decode_link(message.body));
    require(links.size() <= kMostLinks, path + " has too many links");
  }
  const bool ordered = std::all_of(links.begin(), links.end(),
                                   [](const Link& link) { return link.order.has_value(); });
  std::sort(links.begin(), links.end(), [ordered](const Link& a, const Link& b) {
    return ordered && a.order != b.order ? a.order < b.order : a.name < b.name;
  });
  for (std::size_t i = 0; i < links.size(); ++i)
    require(group.places.emplace(links[i].name, i).second, path + " has two links of one name");
  return group;
}

DatasetSpec read_shape(const ObjectHeader& header, const std::string& path,
                       std::uint64_t file_size) {
  const Message* type = header.find(MessageKind::kDatatype);
  const Message* space = header.find(MessageKind::kDataspace);
  require(type != nullptr && space != nullptr, path + " is not a dataset");
  require(!type->shared, path + " shares a named type");
  require(!space->shared, path + " shares a data space");
  DatasetSpec spec;
  try {
    const Datatype known = decode_datatype(type->body);
    spec.type = known.type;
    spec.text_bytes = known.text_bytes;
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " has ", error.what()));
  }
  const Dataspace shape = decode_dataspace(space->body);
  require(shape.kind == Dataspace::Kind::kSimple, path + " is not an array");
  require(shape.size.size() >= 1 && shape.size.size() <= kMostDimensions,
          concat(path, " has ", shape.size.size(), " dimensions"));
  require(!shape.may_grow, path + " may grow");
  spec.rows = shape.size[0];
  spec.row_shape.assign(shape.size.begin() + 1, shape.size.end());
  const std::uint64_t most = spec.rows == 0 ? kLongestRow : file_size;
  std::uint64_t row = element_bytes(spec.type, spec.text_bytes);
  for (const std::uint64_t size : spec.row_shape) {
    require(size > 0, path + " has rows without columns");
    require(size <= most / row, path + " claims more columns than fit in the file");
    row *= size;
  }
  require(spec.rows <= file_size / row, path + " claims more rows than fit in the file");
  return spec;
}

ChunkLayout read_storage(const ObjectHeader& header, const std::string& path,
                         const DatasetSpec& spec) {
  const Message& message = *header.find(MessageKind::kLayout);
  require(!message.shared, path + " shares a layout");
  require(header.find(MessageKind::kExternalFiles) == nullptr, path + " lies in an external file");
  ChunkLayout layout;
  try {
    layout = decode_layout(message.body);
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " ", error.what()));
  }
  const Message* filters = header.find(MessageKind::kFilters);
  require(filters != nullptr && !filters->shared && is_fletcher32_alone(filters->body),
          path + " has filters other than fletcher32");
  const std::size_t rank = 1 + spec.row_shape.size();
  const std::vector<std::uint64_t>& chunk = layout.chunk;
  require(chunk.size() == rank + 1 && chunk[0] >= 1 &&
              chunk[0] <= std::max<std::uint64_t>(1, spec.rows) &&
              std::equal(spec.row_shape.begin(), spec.row_shape.end(), chunk.begin() + 1) &&
              chunk[rank] == element_bytes(spec.type, spec.text_bytes),
          path + " has odd chunks");
  return layout;
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw CacheError(what);
}

std::string unpad(std::span<const std::byte> field) {
  const char* text = reinterpret_cast<const char*>(field.data());
  std::size_t length = field.size();
  while (length > 0 && text[length - 1] == '\0') --length;
  return {text, length};
}

struct DatasetReader::State {
  const ByteSource* store = nullptr;
  std::string path;
  DatasetSpec spec;
  std::uint64_t chunk_rows = 1;
  std::vector<std::uint64_t> chunks;  // addresses
};

DatasetReader::DatasetReader(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const DatasetSpec& DatasetReader::spec() const {
  return state_->spec;
}

std::vector<Extent> DatasetReader::chunks() const {
  const std::uint64_t bytes = state_->chunk_rows * state_->spec.row_bytes() + kFletcherBytes;
  std::vector<Extent> extents;
  for (const std::uint64_t address : state_->chunks) extents.push_back({address, address + bytes});
  return extents;
}

void DatasetReader::read_rows(std::uint64_t first, std::uint64_t count,
                              std::span<std::byte> destination) const {
  const DatasetSpec& spec = state_->spec;
  const std::uint64_t row_bytes = spec.row_bytes(), chunk_rows = state_->chunk_rows;
  require(
      first <= spec.rows && count <= spec.rows - first && destination.size() == count * row_bytes,
      state_->path + ": rows outside the dataset were asked for");
  while (count > 0) {
    const std::uint64_t skipped = first % chunk_rows;
    const std::uint64_t rows = std::min(count, chunk_rows - skipped);
    state_->store->read_at(state_->chunks[first / chunk_rows] + skipped * row_bytes,
                           destination.first(rows * row_bytes));
    destination = destination.subspan(rows * row_bytes);
    first += rows;
    count -= rows;
  }
}

struct FileReader::State {
  State(const ByteSource& bytes, Checksums which)
      : store(bytes), checksums(which), headers(bytes, which) {}

  const ByteSource& store;
  const Checksums checksums;
  HeaderReader headers;
  ObjectHeader root;
  std::map<std::string, Group> groups;                   // those looked into, by their paths
  std::unordered_map<std::uint64_t, std::string> paths;  // of the objects, by their addresses
  std::map<std::string, DatasetReader> datasets;
  std::uint64_t bytes_left = 0;  // that further datasets can hold

  const Group& group(const std::string& path);
  ObjectHeader open(const std::string& path);
  std::shared_ptr<DatasetReader::State> open_dataset(const std::string& path);
};

ObjectHeader FileReader::State::open(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const Group& siblings = group(parent);
  const auto place = siblings.places.find(name);
  require(place != siblings.places.end(), path + " is missing");
  const Link& link = siblings.links[place->second];
  require(link.is_hard, path + " is a soft or an external link");
  require(paths.emplace(link.address, path).first->second == path, path + " has several names");
  ObjectHeader header = headers.read(link.address);
  require_plain(header, path);
  return header;
}

const Group& FileReader::State::group(const std::string& path) {
  const auto known = groups.find(path);
  if (known != groups.end()) return known->second;
  const ObjectHeader header = open(path);
  require(header.find(MessageKind::kLayout) == nullptr &&
              header.find(MessageKind::kDatatype) == nullptr &&
              header.find(MessageKind::kLinkInfo) != nullptr,
          path + " is not a group");
  return groups.emplace(path, read_links(header, path)).first->second;
}

FileReader::FileReader(const ByteSource& store, Checksums checksums)
    : state_(std::make_unique<State>(store, checksums)) {
  const std::uint64_t address = read_superblock(store, checksums);
  state_->bytes_left = store.size();
  state_->root = state_->headers.read(address);
  require_plain(state_->root, "/");
  state_->paths.emplace(address, "/");
  state_->groups.emplace("/", read_links(state_->root, "/"));
}

FileReader::~FileReader() = default;

std::vector<std::string> FileReader::names(const std::string& group) const {
  std::vector<std::string> names;
  for (const Link& link : state_->group(group).links) names.push_back(link.name);
  return names;
}

std::shared_ptr<DatasetReader::State> FileReader::State::open_dataset(const std::string& path) {
  const ObjectHeader header = open(path);
  require(header.find(MessageKind::kLayout) != nullptr, path + " is not a dataset");
  auto dataset = std::make_shared<DatasetReader::State>();
  dataset->store = &store;
  dataset->path = path;
  dataset->spec = read_shape(header, path, store.size());
  const ChunkLayout layout = read_storage(header, path, dataset->spec);
  dataset->chunk_rows = layout.chunk[0];
  try {
    dataset->chunks = chunk_addresses(store, layout, dataset->spec, checksums);
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " ", error.what()));
  }
  const std::uint64_t bytes = dataset->spec.rows * dataset->spec.row_bytes();
  require(bytes <= bytes_left, path + " shares its chunks with other datasets");
  bytes_left -= bytes;
  return dataset;
}

DatasetReader FileReader::dataset(const std::string& path) const {
  const auto known = state_->datasets.find(path);
  if (known != state_->datasets.end()) return known->second;
  return state_->datasets.emplace(path, DatasetReader(state_->open_dataset(path))).first->second;
}

void FileReader::check_chunks() const {
  for (const auto& [path, dataset] : state_->datasets)
    for (const Extent& chunk : dataset.chunks()) check_chunk(state_->store, chunk);
}

namespace {

std::optional<Attribute> find_attribute(const ObjectHeader& root, const std::string& name) {
  for (const Message& message : root.messages) {
    if (message.kind != MessageKind::kAttribute) continue;
    require(!message.shared, "a shared attribute, which this format does not have");
    Attribute attribute = decode_attribute(message.body);
    if (attribute.name == name) return attribute;
  }
  return std::nullopt;
}

Attribute require_attribute(const ObjectHeader& root, const std::string& name) {
  std::optional<Attribute> attribute = find_attribute(root, name);
  require(attribute.has_value(), "attribute " + name + " is missing");
  return *std::move(attribute);
}

// The fields of a text attribute, one after another.
std::vector<std::string> read_fields(const Attribute& attribute, std::uint64_t count) {
  std::vector<std::string> texts;
  Cursor value(attribute.value, "an attribute");
  for (std::uint64_t i = 0; i < count; ++i)
    texts.push_back(unpad(value.take(attribute.type.text_bytes)));
  return texts;
}

}  // namespace

bool FileReader::has_attribute(const std::string& name) const {
  return find_attribute(state_->root, name).has_value();
}

std::int64_t FileReader::integer_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == DType::kInt64 && attribute.space.kind == Dataspace::Kind::kScalar,
          "attribute " + name + " is not an int64");
  return static_cast<std::int64_t>(Cursor(attribute.value, "an attribute").number(8));
}

std::string FileReader::text_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == kText && attribute.space.kind == Dataspace::Kind::kScalar,
          "attribute " + name + " is not a text");
  return read_fields(attribute, 1).front();
}

std::vector<std::string> FileReader::texts_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == kText && attribute.space.size.size() == 1,
          "attribute " + name + " is not a list of texts");
  return read_fields(attribute, attribute.space.size[0]);
}

}  // namespace coldframe::cache::hdf5
