// SPDX-License-Identifier: Apache-2.0

#include "storage/mapped_file.hpp"

#include "storage/internal/bus_fault.hpp"

#include <sys/mman.h>

#include <unistd.h>

#include <optional>
#include <utility>

namespace weft::storage {

struct MappedFile::Holder {
  ByteBuffer copy;
  void* mapped = nullptr;
  std::size_t size = 0;
  std::optional<BusWatch> watch;
  std::string path;

  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    watch.reset();  // first: the addresses may be another's right after
    if (mapped) ::munmap(mapped, size);
  }
};

MappedFile::MappedFile(std::shared_ptr<const Holder> holder)
    : holder_(std::move(holder)),
      bytes_(holder_->mapped ? ByteSpan(static_cast<const std::byte*>(holder_->mapped), holder_->size)
                             : ByteSpan(holder_->copy)) {}

MappedFile::MappedFile(ByteBuffer bytes, std::string path) {
  auto holder = std::make_shared<Holder>();
  holder->copy = std::move(bytes);
  holder->path = std::move(path);
  bytes_ = holder->copy;
  holder_ = std::move(holder);
}

std::unique_ptr<MappedFile> MappedFile::map(int descriptor, std::size_t size, std::string path) {
  if (size == 0) return nullptr;
  auto holder = std::make_shared<Holder>();
  holder->path = std::move(path);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) return nullptr;
  holder->mapped = mapped;
  holder->size = size;
  holder->watch = BusWatch::watch(mapped, size);
  if (!holder->watch) return nullptr;
  return std::unique_ptr<MappedFile>(new MappedFile(std::move(holder)));
}

bool MappedFile::is_mapped() const noexcept { return holder_->mapped != nullptr; }

Status MappedFile::intact() const {
  const auto fault = holder_->watch ? holder_->watch->fault() : std::nullopt;
  if (!fault) return {};
  return fail(Errc::storage, holder_->path + ": cannot be read at byte " + std::to_string(*fault) + " of " +
                                 std::to_string(holder_->size) +
                                 ": it was cut short while it was in use, or the disk failed");
}

void MappedFile::forget(ByteSpan part) const noexcept {
  if (!holder_->mapped || part.empty()) return;
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t begin = (first + page - 1) / page * page, end = (first + part.size()) / page * page;
  if (begin < end) ::madvise(static_cast<std::byte*>(holder_->mapped) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace weft::storage
