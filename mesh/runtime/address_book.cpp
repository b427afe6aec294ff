// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/address_book.hpp"

#include "mesh/runtime/message.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace weft::mesh {
namespace {

struct Book {
  std::shared_mutex mutex;
  std::map<std::uint64_t, AddressEntry::Deliver> meshes;
};

// Never destroyed: meshes of static storage may end after everything else.
Book& book() {
  static Book* const all = new Book;
  return *all;
}

Result<std::uint64_t> deliver(const Address& to, MessagePointer message, std::optional<std::uint64_t> reply_within) {
  const std::shared_lock hold(book().mutex);
  const auto found = book().meshes.find(to.mesh);
  if (found == book().meshes.end())
    return fail(Errc::not_found, "cell " + to_string(to) + ": mesh " + std::to_string(to.mesh) + " has ended");
  return found->second(to.at, std::move(message), reply_within);
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
  const std::unique_lock hold(book().mutex);
  book().meshes.emplace(mesh, std::move(deliver));
}

AddressEntry::~AddressEntry() {
  const std::unique_lock hold(book().mutex);
  book().meshes.erase(mesh_);
}

}  // namespace weft::mesh
