/*
 * session.c
 *		The settings that our background processes can't do with otherwise.
 */
#include "postgres.h"

#include "utils/guc.h"

#include "session.h"

/*
 * What must be so whatever ALTER DATABASE, ALTER ROLE or the configuration
 * says.  Settings that this server does not have are passed by.
 */
static const struct
{
	const char *name;
	const char *value;
} pinned_settings[] = {
	/* whose rights, and whose objects */
	{"role", "none"},
	{"search_path", "pg_catalog, pg_temp"},
	{"row_security", "off"},
	{"session_replication_role", "origin"},
	/* transactions */
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"synchronous_commit", "off"},
	/* times */
	{"statement_timeout", "0"},
	{"transaction_timeout", "0"},
	{"lock_timeout", "50ms"},
	{"idle_in_transaction_session_timeout", "0"},
};

void
SessionPin(void)
{
	for (int i = 0; i < lengthof(pinned_settings); i++)
	{
		const char *name = pinned_settings[i].name;

		if (GetConfigOption(name, true, false) != NULL)
			SetConfigOption(name, pinned_settings[i].value, PGC_SUSET,
							PGC_S_OVERRIDE);
	}
}
