// RAII for HDF5's identifiers, and its error codes as exceptions. Internal to cache/hdf5.
#pragma once

#include <hdf5.h>

#include <string_view>
#include <utility>

namespace coldframe::cache::hdf5 {

// CacheError "cannot <action>: <HDF5's own words>" when the code is negative.
void check(herr_t code, std::string_view action);
hid_t check_id(hid_t id, std::string_view action);

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
    return *this;
  }
  operator hid_t() const { return id_; }
  hid_t release() { return std::exchange(id_, -1); }
  void reset() noexcept {
    if (id_ >= 0) close_(id_);
    id_ = -1;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

}  // namespace coldframe::cache::hdf5
