#include "train_temporal/bundle/files/torch_file.h"

#include <caffe2/serialize/inline_container.h>

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::bundle {
namespace {

std::string storage_name(const std::string& tensor, torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return "FloatStorage";
    case torch::kFloat64:
      return "DoubleStorage";
    case torch::kFloat16:
      return "HalfStorage";
    case torch::kBFloat16:
      return "BFloat16Storage";
    case torch::kInt64:
      return "LongStorage";
    default:
      throw DataError(concat("tensor '", tensor, "' is of type ", c10::toString(type),
                             ", expected floating-point numbers"));
  }
}

// Python's pickle, protocol 2, as far as a dict of tensors needs it (docs.python.org, pickletools).
class Pickle {
 public:
  Pickle() { text_ += "\x80\x02}("; }  // PROTO 2, EMPTY_DICT, MARK

  // torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
  void add(const std::string& name, const torch::Tensor& tensor, std::size_t number) {
    unicode(name);
    global("torch._utils _rebuild_tensor_v2");
    text_ += "((";
    unicode("storage");
    global("torch " + storage_name(name, tensor.scalar_type()));
    unicode(concat(number));
    unicode("cpu");
    integer(tensor.numel());
    text_ += "tQ";  // TUPLE, BINPERSID
    integer(0);
    tuple(tensor.sizes());
    tuple(tensor.strides());
    text_ += '\x89';  // NEWFALSE
    global("collections OrderedDict");
    text_ += ")RtR";  // EMPTY_TUPLE, REDUCE, TUPLE, REDUCE
  }
  std::string finish() { return text_ + "u."; }  // SETITEMS, STOP

 private:
  void number(std::uint64_t value, std::size_t bytes) {  // little-endian
    for (std::size_t i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> 8 * i & 0xFF);
  }
  void unicode(const std::string& text) {
    text_ += 'X';
    number(text.size(), 4);
    text_ += text;
  }
  void global(std::string name) {
    name[name.find(' ')] = '\n';
    text_ += "c" + name + "\n";
  }
  void integer(std::int64_t value) {  // LONG1
    text_ += "\x8a\x08";
    number(static_cast<std::uint64_t>(value), 8);
  }
  void tuple(torch::IntArrayRef values) {
    text_ += '(';
    for (const std::int64_t value : values) integer(value);
    text_ += 't';
  }

  std::string text_;
};

}  // namespace

void write_torch_file(const std::filesystem::path& path, const StateDict& tensors) {
  AtomicFile file(path);
  caffe2::serialize::PyTorchStreamWriter zip([&](const void* data, std::size_t bytes) {
    file.append(std::span(static_cast<const std::byte*>(data), bytes));
    return bytes;
  });
  const std::string order = "little";
  zip.writeRecord("byteorder", order.data(), order.size());
  Pickle pickle;
  std::size_t number = 0;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor content = tensor.detach().cpu().contiguous();
    pickle.add(name, content, number);
    zip.writeRecord(concat("data/", number++), content.data_ptr(), content.nbytes());
  }
  const std::string text = pickle.finish();
  zip.writeRecord("data.pkl", text.data(), text.size());
  zip.writeEndOfFile();
  file.finish();
}

}  // namespace coldframe::bundle
