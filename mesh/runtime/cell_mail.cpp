// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell_mail.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace weft::mesh {

void CellMail::keep(MailPointer mail) {
  const auto place = [](const Mail& one) { return std::pair(one.not_before, one.sender); };
  const auto later = std::upper_bound(waiting_.begin(), waiting_.end(), mail,
                                      [&](const auto& a, const auto& b) { return place(*a) < place(*b); });
  const bool is_of_neighbour = mail->sender != 0;
  waiting_.insert(later, std::move(mail));
  if (is_of_neighbour) ++neighbours_;
}

bool CellMail::try_keep(std::uint64_t tick, const MailPointer& mail) noexcept {
  try {
    if (mail->sender == 0 || neighbours_ < kCapacity) {
      keep(mail);
      return true;
    }
    mail->finish(tick, fail(Errc::full, "the receiver has " + std::to_string(kCapacity) +
                                            " messages of neighbours that it has not handled yet"));
  } catch (const std::bad_alloc&) {
    mail->finish(tick, fail(Errc::full, "no memory"));  // a text that needs none
  }
  return false;
}

void CellMail::deliver(std::uint64_t tick, MailPointer mail) noexcept {
  mail->not_before = std::max(mail->not_before, tick);
  if (mail->deadline != 0) mail->deadline = ticks_after(tick, mail->deadline);
  if (!try_keep(tick, mail)) leave();
}

void CellMail::collect(std::uint64_t tick, std::uint32_t cell) noexcept {
  if (std::exchange(collected_, tick) == tick) return;
  for (const Outbox* outbox : outboxes_)
    outbox->each(tick, cell, [&](const MailPointer& mail) { try_keep(tick, mail); });
}

MailPointer CellMail::next(std::uint32_t level, std::uint64_t tick) {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& mail) { return mail->level == level; });
  if (found == waiting_.end() || (*found)->not_before > tick) return nullptr;
  MailPointer mail = std::move(*found);
  waiting_.erase(found);
  if (mail->sender == 0)
    leave();
  else
    --neighbours_;
  return mail;
}

void CellMail::end_questions(std::uint64_t tick, Coord at) noexcept {
  const auto refusal = [&](std::uint64_t deadline) -> Status {
    try {
      return fail(Errc::timed_out,
                  "cell " + to_string(at) + ": it did not fire until the deadline, tick " + std::to_string(deadline));
    } catch (const std::bad_alloc&) {
      return fail(Errc::timed_out, "deadline over");  // a text that needs no memory
    }
  };
  std::erase_if(waiting_, [&](const MailPointer& mail) {
    if (mail->sender != 0 || mail->deadline == 0 || tick <= mail->deadline) return false;
    mail->finish(tick, refusal(mail->deadline));
    leave();
    return true;
  });
}

void CellMail::restore(std::uint64_t tick, std::span<const MailPointer> waiting) {
  for (const MailPointer& mail : waiting_)
    if (std::find(waiting.begin(), waiting.end(), mail) == waiting.end())
      mail->finish(tick, fail(Errc::not_found, "the mesh went back to tick " + std::to_string(tick) +
                                                   ", before this message was sent; send it again"));
  const auto of_outside = [&] { return static_cast<std::uint32_t>(waiting_.size()) - neighbours_; };
  const std::uint32_t before = of_outside();
  waiting_.clear();
  neighbours_ = 0;
  for (const MailPointer& mail : waiting) keep(mail);
  outside_.change(before, of_outside());
  collected_ = UINT64_MAX;
}

}  // namespace weft::mesh
