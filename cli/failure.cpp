#include "cli/failure.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace plimsoll::cli {

Failure failure_in_hand() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    // Only reading can fail here: errors of paths that are written come as Error.
    return {ExitCode::checkpoint_unusable, error.path1().string() + ": " + error.code().message()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::output_unwritable, "out of host memory; finished lines are safe"};
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
      return {ExitCode::output_unwritable,
              "the system allows this process no more threads (ulimit -u, ulimit -v, or a control "
              "group's pids.max); finished lines are safe"};
    }
    return {ExitCode::bug, std::string("internal error: ") + error.what()};
  }
}

}  // namespace plimsoll::cli
