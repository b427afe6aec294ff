// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/address_book.hpp"

#include "mesh/runtime/message.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace weft::mesh {
namespace {

/// The way to one mesh, and how many are on it.
struct Way {
  explicit Way(AddressEntry::Deliver to) : deliver(std::move(to)) {}
  const AddressEntry::Deliver deliver;
  std::atomic<std::uint32_t> senders{0};
};

/// A sender's stay on a way.
class Stay {
 public:
  /// Counted in already.
  explicit Stay(std::shared_ptr<Way> way) noexcept : way_(std::move(way)) {}
  ~Stay() {
    if (!way_) return;
    // Pairs with the acquire in ~AddressEntry: what the sender did to the mesh happens before the mesh goes.
    if (way_->senders.fetch_sub(1, std::memory_order_release) == 1) way_->senders.notify_all();
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  const Way* way() const noexcept { return way_.get(); }

 private:
  std::shared_ptr<Way> way_;
};

struct Book {
  std::mutex mutex;  // held to look up, never to deliver
  std::map<std::uint64_t, std::shared_ptr<Way>> meshes;
};

// Never destroyed: meshes of static storage may end after everything else.
Book& book() {
  static Book* const all = new Book;
  return *all;
}

std::shared_ptr<Way> enter(std::uint64_t mesh) {
  const std::lock_guard hold(book().mutex);
  const auto found = book().meshes.find(mesh);
  if (found == book().meshes.end()) return nullptr;
  found->second->senders.fetch_add(1, std::memory_order_relaxed);  // the lock orders it before who ends the mesh
  return found->second;
}

Result<std::uint64_t> deliver(const Address& to, MessagePointer message, std::optional<std::uint64_t> reply_within) {
  const Stay stay(enter(to.mesh));
  if (!stay.way())
    return fail(Errc::not_found, "cell " + to_string(to) + ": mesh " + std::to_string(to.mesh) + " has ended");
  return stay.way()->deliver(to.at, std::move(message), reply_within);
}

}  // namespace

std::string to_string(const Address& address) { return std::to_string(address.mesh) + weft::to_string(address.at); }

Result<std::uint64_t> tell(const Address& to, MessagePointer message) {
  return deliver(to, std::move(message), std::nullopt);
}

Result<MailPointer> ask(const Address& to, MailPointer mail, std::uint64_t ticks) {
  WEFT_TRY([[maybe_unused]] const std::uint64_t stamp, deliver(to, mail, ticks));
  return mail;
}

AddressEntry::AddressEntry(std::uint64_t mesh, Deliver deliver) : mesh_(mesh) {
  auto way = std::make_shared<Way>(std::move(deliver));
  const std::lock_guard hold(book().mutex);
  book().meshes.emplace(mesh, std::move(way));
}

AddressEntry::~AddressEntry() {
  std::shared_ptr<Way> way;
  {
    const std::lock_guard hold(book().mutex);
    const auto found = book().meshes.find(mesh_);
    way = std::move(found->second);
    book().meshes.erase(found);
  }
  // Nobody comes any more, so this ends when those who came have gone.
  for (std::uint32_t now = way->senders.load(std::memory_order_acquire); now != 0;
       now = way->senders.load(std::memory_order_acquire))
    way->senders.wait(now, std::memory_order_acquire);
}

}  // namespace weft::mesh
