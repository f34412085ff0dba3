// Orientation of images: where files state it, and turning them.
#pragma once

#include "image/decode.h"

namespace plimsoll::image::codecs {

/// Tag 274 of EXIF data (a TIFF header and what follows); 1 where it has none, or is broken.
Orientation exif_orientation(Bytes exif);
/// tiff:Orientation of an XMP packet, which counts where EXIF has no tag; 1 where it has none, or
/// is broken.
Orientation xmp_orientation(Bytes xmp);

Image turn(Image image, Orientation orientation);

}  // namespace plimsoll::image::codecs
