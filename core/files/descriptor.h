// A file descriptor that is closed in the end.
#pragma once

namespace plimsoll::files {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int get() const { return number_; }
  int release();

 private:
  int number_ = -1;
};

}  // namespace plimsoll::files
