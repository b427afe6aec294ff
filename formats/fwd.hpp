// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::formats {
class CheckpointStore;
class EntityFile;
class EntityV1File;
class FaultFileSystem;
class File;
class FileLock;
class FileSystem;
class JournalWriter;
class JsonReader;
class JsonValue;
class LayeredFileSystem;
class MappedFile;
class MemoryFileSystem;
class RecordingFileSystem;
enum class CsvHeader;
enum class FaultKind;
enum class FileOperation;
enum class OpenMode;
enum class Packing : int;
struct Blob;
struct Checkpoint;
struct CheckpointOptions;
struct CsvOptions;
struct CsvTable;
struct EntityLimits;
struct EntityOptions;
struct EntityV1Blob;
struct Fault;
struct FileCall;
struct JournalFindings;
struct JournalOptions;
struct JournalPlace;
struct JournalRecord;
struct JsonLimits;
struct NamedBytes;
struct RecordedCall;
struct ResumedJournal;
}  // namespace weft::formats
