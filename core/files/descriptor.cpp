#include "files/descriptor.h"

#include <unistd.h>

namespace plimsoll::files {

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) ::close(number_);
    number_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int Descriptor::release() {
  const int number = number_;
  number_ = -1;
  return number;
}

}  // namespace plimsoll::files
