/*
 * utf8.c
 *		Texts as Kafka gets them.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"

#include "compat.h"
#include "utf8.h"

Utf8
Utf8FromBytes(const char *data, int len)
{
	Utf8 result = {data, len};

	if (GetDatabaseEncoding() != PG_UTF8 && len > 0)
	{
		result.data = pg_server_to_any(data, len, PG_UTF8);
		if (result.data != data)
			result.len = strlen(result.data);
	}
	return result;
}

Utf8
Utf8FromDatum(Datum value)
{
	struct varlena *t = PG_DETOAST_DATUM_PACKED(value);

	return Utf8FromBytes(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

Size
ByteLength(Datum value)
{
	return toast_raw_datum_size(value) - VARHDRSZ;
}

Size
Utf8Length(Datum value)
{
	if (GetDatabaseEncoding() == PG_UTF8)
		return ByteLength(value);
	return Utf8FromDatum(value).len;
}
